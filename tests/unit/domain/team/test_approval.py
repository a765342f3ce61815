"""The conditions under which a user must approve a call."""

from typing import Any

import pytest
from pydantic import ValidationError

from roboco.domain.pattern import MAX_WEIGHT, max_searched_chars
from roboco.domain.team.approval import ArgumentCondition


def requires_approval(condition: dict[str, Any], **args: Any) -> bool:
    return ArgumentCondition.model_validate(condition).applies_to(args)


@pytest.mark.parametrize(
    ("condition", "args", "required"),
    [
        ({"argument": "n", "above": 100}, {"n": 101}, True),
        ({"argument": "n", "above": 100}, {"n": 100}, False),
        ({"argument": "n", "below": 0}, {"n": -0.5}, True),
        ({"argument": "n", "above": 0, "below": 10}, {"n": 5}, True),
        ({"argument": "n", "above": 0, "below": 10}, {"n": 11}, False),
        ({"argument": "to", "equals": "all"}, {"to": "one"}, False),
        ({"argument": "to", "equals": False}, {"to": False}, True),
        ({"argument": "to", "matches": "@shop\\.example$"}, {"to": "x@shop.example"}, True),
        ({"argument": "to", "matches": "@shop\\.example$"}, {"to": "x@elsewhere"}, False),
        ({"any": [{"argument": "n", "above": 1}, {"argument": "m", "above": 1}]}, {"n": 0, "m": 2}, True),
        ({"all": [{"argument": "n", "above": 1}, {"argument": "m", "above": 1}]}, {"n": 2, "m": 0}, False),
    ],
)
def test_a_condition_tests_an_argument(condition: dict[str, Any], args: dict[str, Any], required: bool) -> None:
    assert requires_approval(condition, **args) is required


@pytest.mark.parametrize("value", ["50", None, [1], {"n": 1}, True])
def test_a_value_that_cannot_be_tested_requires_approval(value: Any) -> None:
    assert requires_approval({"argument": "n", "above": 100}, n=value), "a tool may read a number from it"
    assert requires_approval({"argument": "n", "above": 100}), "a tool may have a default"
    assert requires_approval({"argument": "n", "equals": 7}, n=value)
    assert requires_approval({"argument": "n", "matches": "x"}, n=5)


def test_a_text_that_is_too_long_to_search_requires_approval() -> None:
    heavy = {"argument": "to", "matches": "a" * MAX_WEIGHT}
    assert not requires_approval(heavy, to="b" * max_searched_chars("a" * MAX_WEIGHT))
    assert requires_approval(heavy, to="a" * MAX_WEIGHT + "b" * max_searched_chars("a" * MAX_WEIGHT)), (
        "padding evades no approval"
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({}, "tests nothing"),
        ({"above": 1}, "above needs 'argument'"),
        ({"argument": "n", "matches": "("}, "not a regular expression"),
        ({"any": [{"argument": "n", "above": n} for n in range(50)]}, "holds 51 tests, at most 50"),
    ],
)
def test_an_invalid_condition_is_refused(condition: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ArgumentCondition.model_validate(condition)
