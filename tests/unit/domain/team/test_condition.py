"""Table of conditions on the last run of an agent."""

from typing import Any

import pytest

from roboco.domain.decision.router import holds
from roboco.domain.team.condition import Condition
from tests.unit.domain.steps import Line, artifact, call, result, steps_of, text

PLAIN = (("one", "It is APPROVED (42 words)."),)
TOOLED: tuple[Line, ...] = (
    ("one", [text("APPROVED?"), call("tc_1", "search"), call("tc_2", "write")]),
    ("tool_executor", [result("tc_1", error="no net"), result("tc_2", "ok"), artifact("report.md")]),
    ("one", "done", {"usage": {"tokens_out": 7}, "flag": False, "a": {"b": {"c": None}}}),
)


def holds_after(when: dict[str, Any], lines: tuple[Line, ...]) -> bool:
    return holds(Condition.model_validate(when), tuple(steps_of(*lines)))


@pytest.mark.parametrize(
    ("when", "lines", "expected"),
    [
        ({"contains": "APPROVED"}, PLAIN, True),
        ({"contains": "approved"}, PLAIN, False),
        ({"contains": "done"}, TOOLED, True),
        ({"matches": r"\d+ words"}, PLAIN, True),
        ({"matches": "(?i)approved"}, PLAIN, True),
        ({"tool_called": "search"}, TOOLED, True),
        ({"tool_called": "other"}, TOOLED, False),
        ({"tool_failed": "search"}, TOOLED, True),
        ({"tool_failed": "write"}, TOOLED, False),
        ({"artifact": "*.md"}, TOOLED, True),
        ({"artifact": "*.MD"}, TOOLED, False),
        ({"metadata": {"usage.tokens_out": 7}}, TOOLED, True),
        ({"metadata": {"usage.tokens_out": 8}}, TOOLED, False),
        ({"metadata": {"flag": False}}, TOOLED, True),
        ({"metadata": {"usage.tokens_out.more": 7}}, TOOLED, False),
        ({"metadata": {"flag": False, "usage.tokens_out": 8}}, TOOLED, False),
        ({"not": {"contains": "APPROVED"}}, PLAIN, False),
        ({"not": {"not": {"contains": "APPROVED"}}}, PLAIN, True),
        ({"any": [{"contains": "x"}, {"contains": "APPROVED"}]}, PLAIN, True),
        ({"all": [{"contains": "It"}, {"contains": "APPROVED"}]}, PLAIN, True),
        ({"all": [{"contains": "x"}, {"contains": "APPROVED"}]}, PLAIN, False),
        ({"contains": "APPROVED", "matches": "Words"}, PLAIN, False),
        ({"contains": "done", "tool_called": "write", "not": {"tool_failed": "write"}}, TOOLED, True),
    ],
)
def test_a_condition_holds_or_not(when: dict[str, Any], lines: tuple[Line, ...], expected: bool) -> None:
    assert holds_after(when, lines) is expected


def test_no_text_makes_a_pattern_slow() -> None:
    lines: tuple[Line, ...] = (("one", "a" * 100_000 + "b"),)
    assert not holds_after({"matches": "(a+)+$"}, lines)
    assert holds_after({"matches": "(a+)+b$"}, lines)


@pytest.mark.parametrize("when", [{}, {"matches": "a{2,1}"}, {"any": []}, {"all": []}])
def test_an_invalid_condition_is_refused(when: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Condition"):
        Condition.model_validate(when)
