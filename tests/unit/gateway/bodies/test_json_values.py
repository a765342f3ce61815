"""JsonValues: values are counted in any pieces of a body as a parser finds them."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roboco.gateway.bodies.json_values import JsonValues

TEXTS = st.text(st.sampled_from('a",[]{}:\\\né'), max_size=6)
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXTS, inner, max_size=5)),
)


def counted(body: bytes, size: int) -> JsonValues:
    """Return the values of a body in pieces of a size."""
    values = JsonValues()
    for start in range(0, len(body), size):
        values.add(body[start : start + size])
    return values


def members(found: Any) -> int:
    """Return the number of members of all objects and arrays, with one for each that is empty."""
    inner = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else None
    return 0 if inner is None else max(1, len(inner)) + sum(map(members, inner))


@given(DOCUMENTS, st.integers(1, 9), st.booleans())
def test_each_member_counts_once_however_the_body_is_cut(document: Any, size: int, ascii_only: bool) -> None:
    values = counted(json.dumps(document, ensure_ascii=ascii_only).encode(), size)
    assert values.count == members(document)
    assert values.is_utf8
