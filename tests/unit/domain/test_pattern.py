"""Patterns: their weight bounds the time to compile them, and to search a text."""

import pytest

from roboco.domain.pattern import (
    MAX_PATTERN_CHARS,
    MAX_SEARCH_COST,
    MAX_WEIGHT,
    check_pattern,
    matches,
    max_searched_chars,
    weight,
)
from tests.faults.hostile import tenant


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", 1),
        ("a+b*c?", 3),
        ("a{2,10}", 10),
        ("a{3,}", 4),
        ("(a{10}){10}", 110),
        ("a{0000000000100 , }", 101),
        (r"\pL{2}", 40),
        ("(a|b){10}", 40),
        ("[a-z]{10}", 40),
        (r"\w{10}", 200),
        (r"[\w.]{2}", 40),
        ("[[:alpha:]]{2}", 40),
        ("[]a]{2}", 8),
        ("[a[bc]]{2}", 8),
        (r"\{{5}", 5),
        ("(((a", 4),
        ("a)", 2),
    ],
)
def test_weight_of_a_pattern(pattern: str, expected: int) -> None:
    assert weight(pattern) == expected


@pytest.mark.parametrize("pattern", tenant.HEAVY_PATTERNS)
def test_a_heavy_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", [r"\(?x\)?", r"^[a-zA-Z0-9_-]{1,64}$", r"^\d{4}-\d{2}-\d{2}$", "(?i)approved|ok", ""]
)
def test_usual_patterns_are_accepted(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


def test_the_end_of_a_long_text_is_searched() -> None:
    heavy = "a" * MAX_WEIGHT
    assert max_searched_chars("a") == MAX_SEARCH_COST
    assert max_searched_chars(heavy) == MAX_SEARCH_COST // MAX_WEIGHT
    assert matches(heavy, "b" * 10_000 + heavy)
    assert not matches(heavy, heavy + "b" * 10_000)
    assert len(heavy) < MAX_PATTERN_CHARS
