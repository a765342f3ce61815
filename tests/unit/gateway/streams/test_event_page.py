"""A page of a task whose log cannot be read in time."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from roboco.domain.stream.item import StreamItem, TextPartDelta, stream_item
from roboco.errors import TransientError
from roboco.gateway.streams import event_page
from roboco.gateway.streams.event_page import EventPage, read_page

TEXTS = [
    stream_item(TextPartDelta(step_id="s", agent_name="one", attempt=1, text=text), f"0.0.{number}")
    for number, text in enumerate("abc")
]


async def _unfinished_log(items: list[StreamItem]) -> AsyncGenerator[StreamItem | None, None]:
    """Yield the items, and then nothing."""
    for item in items:
        yield item
    await asyncio.Event().wait()


def page_of(items: list[StreamItem]) -> EventPage:
    """Return the page of a client that asks for none of these items."""
    return asyncio.run(read_page(_unfinished_log(items), "before", lambda _: False, 100, 0))


def test_a_page_gets_on_though_it_hides_all_that_was_read_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_page, "READ_SECONDS", 0.01)
    assert page_of(TEXTS) == EventPage((), "0.0.2")
    with pytest.raises(TransientError):
        page_of([])
