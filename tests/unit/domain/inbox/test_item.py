"""Inbox items, as they are stored in their files."""

import pytest
from pydantic import ValidationError

from roboco.domain.inbox.item import Stop, UserMessage, parse_item
from tests.unit.domain.steps import START


@pytest.mark.parametrize(
    "item",
    [
        UserMessage(item_id="i", created_at=START, text="hi"),
        UserMessage(item_id="i", created_at=START, text="hi", agent="one", applied_at_seq=4),
        Stop(item_id="i", created_at=START),
        Stop(item_id="i", created_at=START, reason="enough"),
    ],
)
def test_an_item_survives_serialization(item: UserMessage | Stop) -> None:
    assert parse_item(item.model_dump_json()) == item


@pytest.mark.parametrize("data", ["{}", "[]", '{"kind": "dance"}', '{"kind": "stop"}'])
def test_an_invalid_item_is_refused(data: str) -> None:
    with pytest.raises(ValidationError):
        parse_item(data)
