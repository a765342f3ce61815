"""What arrives from outside, as it stands in its file."""

import pytest
from pydantic import ValidationError

from roboco.domain.inbox.item import Message, Stop, read_item
from tests.unit.domain.steps import START


@pytest.mark.parametrize(
    "item",
    [
        Message(item_id="i", created_at=START, text="hi"),
        Message(item_id="i", created_at=START, text="hi", agent="one", taken_at_seq=4),
        Stop(item_id="i", created_at=START),
        Stop(item_id="i", created_at=START, reason="enough"),
    ],
)
def test_an_item_is_read_back(item: Message | Stop) -> None:
    assert read_item(item.model_dump_json()) == item


@pytest.mark.parametrize("data", ["{}", "[]", '{"kind": "dance"}', '{"kind": "stop"}'])
def test_what_is_no_item_is_refused(data: str) -> None:
    with pytest.raises(ValidationError):
        read_item(data)
