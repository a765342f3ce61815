"""What the sweeper works from, what waits for a task, and the logs, in memory."""

from collections.abc import Iterator, Sequence

from roboco.domain.canonical import canonical
from roboco.domain.event import AnyEvent
from roboco.ports import Clock
from tests.memory.server import MemoryServer


class MemoryAgenda:
    """When the sweeper looks at a task again."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def put(self, task_id: str, at: float) -> None:
        """Look at the task at this time."""
        with self._server as held:
            held.agenda[task_id] = at

    def add(self, task_id: str, at: float) -> bool:
        """Look at the task at this time, unless a time stands already; whether none stood."""
        with self._server as held:
            fresh = task_id not in held.agenda
            held.agenda.setdefault(task_id, at)
            return fresh

    def due(self, now: float, limit: int) -> list[str]:
        """The tasks whose time has come, earliest first."""
        with self._server as held:
            return [task_id for at, task_id in sorted((at, name) for name, at in held.agenda.items()) if at <= now][
                :limit
            ]

    def drop(self, task_id: str) -> None:
        """Do not look at the task again."""
        with self._server as held:
            held.agenda.pop(task_id, None)

    def lock(self, token: str, seconds: float) -> bool:
        """Whether this sweeper may sweep now, for so many seconds."""
        now = self._clock.now()
        with self._server as held:
            if held.sweeping_until > now:
                return False
            held.sweeping_until = now + seconds
            return True

    def intact(self) -> bool:
        """Whether the server holds all that it held at the last `begin`."""
        with self._server as held:
            return held.run == self._server.run

    def restarted(self) -> bool:
        """Whether the server was set back since the last `begin`; not if it was emptied."""
        with self._server as held:
            return held.run not in (0, self._server.run)

    def fresh(self) -> bool:
        """Whether the last `begin` was less than its `seconds` ago."""
        now = self._clock.now()
        with self._server as held:
            return held.fresh_until > now

    def begin(self, seconds: float) -> None:
        """Note that every open task stands in the agenda; that is fresh for so many seconds."""
        now = self._clock.now()
        with self._server as held:
            held.run = self._server.run
            held.fresh_until = now + seconds


class MemoryInbox:
    """Which items wait for a task."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def knock(self, task_id: str, item_ids: Sequence[str]) -> None:
        """Note the items."""
        if item_ids:
            with self._server as held:
                held.inboxes.setdefault(task_id, set()).update(item_ids)

    def forget(self, task_id: str, item_id: str) -> None:
        """The item was taken over."""
        with self._server as held:
            held.inboxes.get(task_id, set()).discard(item_id)


class MemoryLogs:
    """The logs of both channels."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """The messages of the execution channel after this number, oldest first."""
        with self._server as held:
            task = held.tasks.get(task_id)
            return iter([message.encode() for message in task.events[after:]] if task else [])

    def announce(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event that belongs to no task that is known."""
        with self._server:
            self._server.published.append((task_id, canonical(event.model_dump(mode="json"))))
