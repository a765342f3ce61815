"""Descriptions of the effect of a message that interrupts."""

from datetime import timedelta

import pytest

from roboco.cli.interactive.receipts import describe_effect
from roboco.client.receipt import Receipt
from tests.unit.cli.live_items import STARTED_AT


def after(milliseconds: float) -> object:
    return STARTED_AT + timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "t has accepted it, and no worker has applied it yet"),
        (
            {"applied_at_seq": 3, "seen_at": after(-1), "closed_at": after(1500), "chunks_after": 1},
            "interrupted t: seen after 0 ms, connection closed after 1.5 s, 1 chunk came after",
        ),
        (
            {"applied_at_seq": 3, "seen_at": after(12), "chunks_after": 2},
            "interrupted t: seen after 12 ms, connection not closed yet, 2 chunks came after",
        ),
    ],
)
def test_describe_effect_names_step_and_times(fields: dict[str, object], expected: str) -> None:
    assert describe_effect(Receipt("i", STARTED_AT, **fields), "t") == expected  # type: ignore[arg-type]
