"""event_page: the next items of a task as one answer, for clients that cannot read a stream (long polling)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from roboco.domain.stream.item import StreamItem
from roboco.errors import TransientError
from roboco.gateway.streams.place import end_place, is_end
from roboco.gateway.streams.selection import Selection

MAX_PAGE_CHARS: Final = 1_000_000
"""Characters of a page after which it takes no further item."""
COLLECT_SECONDS: Final = 0.05
"""Seconds for which a page waits for further items after its first live one."""
READ_SECONDS: Final = 10.0
"""Seconds in which the log of a task has to be read."""


@dataclass(frozen=True)
class EventPage:
    """Items of a task, and the place after the last one that was read."""

    items: tuple[StreamItem, ...]
    place: str

    def json(self, selection: Selection) -> str:
        """Return the page in JSON, in the form of the client."""
        shown = ((one.cursor, *selection.content(one)) for one in self.items)
        items = ",".join(f'{{"id":"{place}","type":"{kind}","data":{data}}}' for place, kind, data in shown)
        return f'{{"items":[{items}],"cursor":"{self.place}","ended":{json.dumps(is_end(self.place))}}}'


class _Collector:
    """Collects the items of a page, and knows when the page is complete."""

    def __init__(self, place: str, limit: int, until: float) -> None:
        self.items: list[StreamItem] = []
        self.place = place
        self.has_read_log = False
        self._until = until
        self._limit = limit
        self._chars = 0

    def add(self, item: StreamItem, shown: bool) -> None:
        """Add an item, or skip a hidden one."""
        self.place = item.cursor
        if shown:
            self.items.append(item)
            self._chars += len(item.data_json)

    @property
    def full(self) -> bool:
        """True if no further item fits. The end of a task always does."""
        last = self.items[-1].type if self.items else "event_task_end"
        return last != "event_task_end" and (len(self.items) >= self._limit or self._chars > MAX_PAGE_CHARS)

    def deadline(self, now: float) -> float:
        """Return the time at which the page is complete, once the log is read."""
        return min(self._until, now + COLLECT_SECONDS) if self.items else self._until

    def page(self) -> EventPage:
        """Return the page."""
        return EventPage(tuple(self.items), self.place)


async def read_page(
    items: AsyncGenerator[StreamItem | None, None],
    place: str,
    shows: Callable[[StreamItem], bool],
    limit: int,
    wait: float,
) -> EventPage:
    """Return the next items that the client asks for, at most `limit`, within `wait` seconds if there is none yet.

    If the log has many items that the client does not ask for, the page has the place that was reached in time, maybe
    without an item. Raise TransientError if no item of the log can be read in time.
    """
    loop = asyncio.get_running_loop()
    found = _Collector(place, limit, loop.time() + wait)
    try:
        async with asyncio.timeout(max(wait, READ_SECONDS)) as deadline, aclosing(items):
            async for item in items:
                if item is not None:
                    found.add(item, shows(item))
                elif found.items:
                    return found.page()
                else:
                    found.has_read_log = True
                if found.full:
                    return found.page()
                if found.has_read_log:
                    deadline.reschedule(found.deadline(loop.time()))
    except TimeoutError:
        if not found.has_read_log and found.place == place:
            raise TransientError(f"redis and the workspace have not answered for {READ_SECONDS:g} s") from None
        return found.page()
    return EventPage(tuple(found.items), end_place(found.place))
