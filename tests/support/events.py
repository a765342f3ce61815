"""Worker events of a Celery application, received as Flower receives them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from celery import Celery
from celery.events.state import State

from tests.support.stack import until


@dataclass(frozen=True)
class ReceivedEvents:
    """The events received so far, and the state that Celery derives from them."""

    rows: Any = field(default_factory=State)
    events: list[dict[str, Any]] = field(default_factory=list)

    def state(self, celery_id: str) -> str | None:
        """Return the state of a Celery task, or None if no event names it."""
        row = self.rows.tasks.get(celery_id)
        return None if row is None else str(row.state)

    def add(self, event: dict[str, Any]) -> None:
        """Add a received event."""
        self.events.append(event)
        self.rows.event(event)


@contextmanager
def capture_events(app: Celery) -> Iterator[ReceivedEvents]:
    """Receive the workers' events during the block, which starts once a heartbeat has arrived."""
    seen, untyped = ReceivedEvents(), app
    events: Any = untyped.events
    with app.connection_for_read() as connection:
        receiver = events.Receiver(connection, handlers={"*": seen.add})
        thread = threading.Thread(target=lambda: receiver.capture(limit=None, timeout=None, wakeup=True), daemon=True)
        thread.start()
        try:
            until(lambda: _has_heartbeat(app, seen), 60, "a worker sends events")
            yield seen
        finally:
            receiver.should_stop = True
            thread.join(10)


def _has_heartbeat(app: Celery, seen: ReceivedEvents) -> bool:
    app.control.enable_events()
    return any(event["type"] == "worker-heartbeat" for event in seen.events)
