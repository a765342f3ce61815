"""ToolCallFilter: text passes and JSON tool calls do not, at whatever characters the reply is split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.model.tool_call_filter import HELD_CHARS, ToolCallFilter

CALL_JSON = '{"calls": [{"tool": "add", "args": {"text": "} ] \\\\ \\" {"}}]}'
CASES = [
    (CALL_JSON, ""),
    (f"```json\n{CALL_JSON}\n```\nDone.", "Done."),
    (f"```\n{CALL_JSON}\n``` \n", ""),
    (f"Let me see. {CALL_JSON} Well. {CALL_JSON}", "Let me see.  Well. "),
    ('[{"name": "add", "arguments": {}}] tail', " tail"),
    ('{"function": {"name": "add"}}', ""),
    ('{"tool_calls": [', ""),
    ('```json\n{"to', ""),
    ("{", ""),
    ('{"calls": [{"tool": add}]} tail', " tail"),
    ('{"name": "Ann", "age": 5}', '{"name": "Ann", "age": 5}'),
    ("Use `a[0]` and {x}, see [this](u).", "Use `a[0]` and {x}, see [this](u)."),
    ("```py\nx = {1: 2}\n```\n", "```py\nx = {1: 2}\n```\n"),
    ('{"text": "hello"}', '{"text": "hello"}'),
]


def published_words(*pieces: str) -> str:
    """Return the published words of an answer that arrives in these pieces."""
    call_filter = ToolCallFilter()
    return "".join(map(call_filter.feed, pieces)) + call_filter.finish()


@pytest.mark.parametrize(("answer", "expected"), CASES)
def test_only_the_words_of_an_answer_are_published(answer: str, expected: str) -> None:
    assert published_words(answer) == expected


@given(st.sampled_from(CASES), st.integers(1, 9))
def test_published_words_do_not_depend_on_the_pieces(case: tuple[str, str], size: int) -> None:
    answer, expected = case
    assert published_words(*(answer[start : start + size] for start in range(0, len(answer), size))) == expected


@pytest.mark.parametrize(
    "answer", ["```" + " " * 20_000 + "x", "`" * 20_000, "[" * 20_000, f"```\n{CALL_JSON}" + " " * 20_000 + "x"]
)
def test_the_cost_of_an_answer_grows_with_its_length_alone(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def next_words(self: ToolCallFilter) -> str | None:
        searched.append(len(self._held))
        return original(self)

    original = ToolCallFilter._next_words
    monkeypatch.setattr(ToolCallFilter, "_next_words", next_words)
    published_words(answer)
    assert max(searched) <= 2 * HELD_CHARS
    assert sum(searched) <= 3 * HELD_CHARS * len(answer)


def test_whitespace_after_a_call_is_held_for_a_short_time() -> None:
    call_filter = ToolCallFilter()
    call_filter.feed(f"```\n{CALL_JSON}")
    assert "".join(call_filter.feed(" ") for _ in range(2 * HELD_CHARS)) != ""
