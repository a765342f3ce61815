"""Canonical JSON, and texts that can be encoded as UTF-8."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.canonical_json import canonical_json, well_formed, well_formed_json
from tests.unit.domain.steps import JSON

PIECES = st.sampled_from(["a", "ü", "\U0001f600", "\ud83d", "\ude00", "\udfff", "\0", "\ufffd"])
ANY_TEXT = st.lists(PIECES, max_size=5).map("".join)


@given(JSON)
def test_equal_values_have_equal_bytes(value: object) -> None:
    encoded = canonical_json(value)
    assert json.loads(encoded) == value
    assert canonical_json(json.loads(json.dumps(value, indent=2))) == encoded


def test_keys_are_sorted_and_numbers_that_json_lacks_refused() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "ü\n"}) == '{"a":"ü\\n","b":[1,2.5,null]}'
    for number in (float("nan"), float("-inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json({"a": number})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\U0001f600", "\U0001f600"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ud83db", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
    ],
)
def test_surrogate_pairs_are_joined_and_lone_surrogates_replaced(text: str, expected: str) -> None:
    assert well_formed(text) == expected


@given(
    st.recursive(
        ANY_TEXT | st.integers(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ANY_TEXT, inner, max_size=2),
        max_leaves=4,
    )
)
def test_well_formed_json_can_be_encoded(value: object) -> None:
    formed = well_formed_json(value)
    canonical_json(formed).encode()
    assert well_formed_json(formed) == formed
