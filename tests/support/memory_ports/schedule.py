"""The schedule, dead letters and logs in memory."""

from collections.abc import Iterator, Sequence

from roboco.domain.canonical_json import canonical_json
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.ids import shard_of
from roboco.domain.paths import ENTER_PREFIX, RESTART_PREFIX
from roboco.domain.stream.event import AnyEvent
from roboco.errors import UsageError
from roboco.ports.clock import Clock
from roboco.ports.dead_letters import DeadLetterPage, DeadLetters
from roboco.ports.logs import EventLogs, LogTrim
from roboco.ports.schedule import ClaimedEntry, FillClaim, FillPosition, Schedule, ScheduledPage
from tests.support.memory_ports.server import MemoryServer, StoredFill

SCAN_SIZE = 500
"""Tasks of a page of a scan."""
RECORD_TTL = 900.0
"""Seconds after the last claim for which the record of a fill is kept."""
MAX_LETTERS = 1000
"""Maximal number of dead letters that are kept."""


class MemorySchedule(Schedule):
    """The schedule of the sweeper's passes over tasks."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def set(self, task_id: str, delay: float = 0.0) -> None:
        at = self._clock.now() + delay
        with self._server as held:
            held.schedule[task_id] = at

    def schedule_no_later_than(self, task_id: str, delay: float = 0.0) -> None:
        at = self._clock.now() + delay
        with self._server as held:
            held.schedule[task_id] = min(at, held.schedule.get(task_id, at))

    def enter(self, names: Sequence[str], delay: float = 0.0, replace: bool = True) -> frozenset[int]:
        at = self._clock.now() + delay
        with self._server as held:
            held.schedule.update({name: at for name in names if replace or name not in held.schedule})
        return frozenset()

    def claim(self, shard: int, limit: int, seconds: float) -> list[ClaimedEntry]:
        now = self._clock.now()
        with self._server as held:
            due = sorted((at, "/" in name, name) for name, at in held.schedule.items() if at <= now)
            names = [(name, now - at) for at, _, name in due if shard_of(name) == shard][:limit]
            held.schedule.update({name: now + seconds for name, _ in names})
        return [ClaimedEntry(name, now + seconds, overdue) for name, overdue in names]

    def due_at(self, task_id: str) -> float | None:
        """Return when the task is due, in Unix seconds, or None if it has no time. Tests read it."""
        with self._server as held:
            return held.schedule.get(task_id)

    def count(self) -> int:
        with self._server as held:
            return sum(1 for name in held.schedule if "/" not in name)

    def remove(self, task_id: str, at: float | None = None) -> None:
        with self._server as held:
            if at in (None, held.schedule.get(task_id)):
                held.schedule.pop(task_id, None)

    def time(self) -> float:
        return self._clock.now()

    def task_ids(self) -> Iterator[str]:
        with self._server as held:
            return iter([name for name in held.schedule if "/" not in name])

    def scan(self, shard: int, cursor: int = 0) -> ScheduledPage:
        names = sorted(name for name in self.task_ids() if shard_of(name) == shard)
        end = cursor + SCAN_SIZE
        return ScheduledPage(tuple(names[cursor:end]), end if end < len(names) else 0)

    def is_intact(self) -> bool:
        with self._server as held:
            return held.filled_instance == self._server.instance and not held.mark

    def recovered_instance(self, task_id: str) -> str | None:
        with self._server as held:
            waits = {f"{RESTART_PREFIX}{task_id}", f"{ENTER_PREFIX}{task_id}"} & held.schedule.keys()
            return self.instance_id() if self.is_intact() and not waits else None

    def was_restarted(self) -> bool:
        with self._server as held:
            return held.filled_instance not in (0, self._server.instance)

    def recently_filled(self) -> bool:
        now = self._clock.now()
        with self._server as held:
            return held.fresh_until > now

    def instance_id(self) -> str:
        return str(self._server.instance)

    def is_instance(self, instance_id: str) -> bool:
        return instance_id == self.instance_id()

    def mark_filling(self) -> str:
        with self._server as held:
            if self.is_intact():
                return self.instance_id()
            if held.mark.partition("|")[0] != self.instance_id():
                held.mark = f"{self.instance_id()}|{self._server.generation()}"
            return held.mark

    def mark_filled(self, seconds: float, mark: str | None = None) -> None:
        now = self._clock.now()
        with self._server as held:
            if mark is not None and mark not in (held.mark, "" if held.mark else str(held.filled_instance)):
                return
            held.filled_instance = self._server.instance if mark is None else int(mark.partition("|")[0])
            held.mark = ""
            held.fresh_until = now + seconds

    def claim_fill(self, mark: str, first: FillPosition, token: str, seconds: float) -> FillClaim:
        now = self._clock.now()
        with self._server as held:
            if held.fill is None or held.fill.mark != mark or held.fill.claimed_at + RECORD_TTL <= now:
                held.fill = StoredFill(mark, first, claimed_at=now)
            granted = held.fill.until <= now or held.fill.token == token
            if granted:
                held.fill.token, held.fill.until, held.fill.claimed_at = token, now + seconds, now
            return FillClaim(held.fill.position, granted)

    def advance_fill(self, token: str, position: FillPosition, delay: float = 0.0) -> bool:
        now = self._clock.now()
        with self._server as held:
            fill = held.fill
            if fill is None or fill.token != token:
                return fill is not None and (fill.released, fill.position) == (token, position)
            fill.position, fill.token, fill.released, fill.until = position, "", token, now + delay
            return True

    def finish_fill(self, token: str) -> None:
        with self._server as held:
            if held.fill is not None and held.fill.token == token:
                held.fill = None


class MemoryDeadLetters(DeadLetters):
    """Dead letters by id, as JSON."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def add(self, letter: DeadLetter) -> None:
        with self._server as held:
            held.letters[letter.letter_id] = letter.model_dump_json()
            held.stored_letters += 1
            held.letter_numbers.setdefault(letter.letter_id, held.stored_letters)
            for letter_id in list(held.letters)[:-MAX_LETTERS]:
                del held.letters[letter_id]

    def get(self, letter_id: str) -> DeadLetter | None:
        return next((letter for letter in self.entries() if letter.letter_id == letter_id), None)

    def entries(self) -> list[DeadLetter]:
        with self._server as held:
            found = [DeadLetter.model_validate_json(letter) for letter in held.letters.values()]
        return sorted(found, key=lambda letter: letter.time)

    def page(self, limit: int, cursor: str = "") -> DeadLetterPage:
        if cursor and not cursor.isdecimal():
            raise UsageError(f"cursor {cursor!r} is none of a page of dead letters: leave it out")
        with self._server as held:
            numbered = sorted(((held.letter_numbers[name], name) for name in held.letters), reverse=True)
            rest = [name for number, name in numbered if not cursor or number < int(cursor)]
            found = [DeadLetter.model_validate_json(held.letters[name]) for name in rest[:limit]]
            last = held.letter_numbers[rest[limit - 1]] if len(rest) > limit else None
        return DeadLetterPage(found, "" if last is None else str(last))

    def count(self) -> int:
        with self._server as held:
            return len(held.letters)

    def remove(self, letter_id: str) -> None:
        with self._server as held:
            held.letter_numbers.pop(letter_id, None)
            held.letters.pop(letter_id, None)


def _after(number: int, first: int, messages: list[str]) -> list[bytes]:
    return [message.encode() for message in messages[max(0, number + 1 - first) :]]


class MemoryLogs(EventLogs):
    """The logs of both channels."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        with self._server as held:
            task = held.tasks.get(task_id)
            return iter(_after(after, task.first_event, task.events) if task else [])

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        with self._server as held:
            task = held.tasks.get(task_id)
            return iter(_after(after, task.first_chunk, task.chunks) if task else [])

    def trim(self, task_id: str, trim: LogTrim) -> bool:
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None or task.generation != trim.generation:
                return False
            now = (task.first_event, task.archived_event)
            if trim.first != trim.keep_from and now == (trim.keep_from, trim.archived):
                return True
            if task.first_event != trim.first or not task.archived_event <= trim.archived <= task.last_event:
                return False
            if trim.keep_from > min(trim.archived + 1, task.last_event):
                return False
            task.events = task.events[trim.keep_from - trim.first :]
            task.first_event, task.archived_event = trim.keep_from, trim.archived
            task.trim_chunks(trim.chunks_from)
            return True

    def publish_unlogged(self, task_id: str, event: AnyEvent) -> None:
        with self._server:
            self._server.published.append((task_id, canonical_json(event.model_dump(mode="json"))))
