"""event_page: the next items of a task as one answer, for clients that cannot read a stream (long polling)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
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
    until, begin = loop.time() + wait, place
    found, chars, has_read_log = list[StreamItem](), 0, False
    try:
        async with asyncio.timeout(max(wait, READ_SECONDS)) as deadline, aclosing(items):
            async for item in items:
                if item is None:
                    has_read_log = True
                else:
                    place = item.cursor
                    if shows(item):
                        found.append(item)
                        chars += len(item.data_json)
                if (item is None and found) or _is_full(found, chars, limit):
                    return EventPage(tuple(found), place)
                if has_read_log:
                    deadline.reschedule(min(until, loop.time() + COLLECT_SECONDS) if found else until)
    except TimeoutError:
        if not has_read_log and place == begin:
            raise TransientError(f"redis and the workspace have not answered for {READ_SECONDS:g} s") from None
        return EventPage(tuple(found), place)
    return EventPage(tuple(found), end_place(place))


def _is_full(items: Sequence[StreamItem], chars: int, limit: int) -> bool:
    """Return True if no further item fits. The end of a task always does."""
    last = items[-1].type if items else "event_task_end"
    return last != "event_task_end" and (len(items) >= limit or chars > MAX_PAGE_CHARS)
