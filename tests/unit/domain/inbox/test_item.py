"""Inbox items, as they are stored in their files."""

import pytest
from pydantic import ValidationError

from roboco.domain.inbox.item import parse_item


@pytest.mark.parametrize("data", ["{}", "[]", '{"kind": "dance"}', '{"kind": "stop"}'])
def test_an_invalid_item_is_refused(data: str) -> None:
    with pytest.raises(ValidationError):
        parse_item(data)
