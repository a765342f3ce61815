"""A publisher of random events and chunks, and the reception of its messages."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

from roboco.domain.history.step import USER
from roboco.domain.stream.event import AnyEvent
from roboco.ports.logs import LogTrim
from roboco.ports.snapshot import Phase
from roboco.redis.stream.position import Record
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK, USAGE, status_event, text_chunk

END = "the end"
"""The text of the last message."""


class Publisher:
    """A publisher of events and chunks; `published` is the list of their texts, in order.

    With `trims_chunks` the commit of a turn removes its chunks from the log, as that of a long text does.
    """

    def __init__(self, task: TaskOnRedis, seed: int = 1, trims_chunks: bool = False) -> None:
        self._agent = "writer" if trims_chunks else USER
        self._task = task
        self._random = random.Random(seed)
        self.published: list[str] = []

    def create_task(self) -> None:
        """Create the task."""
        self._task.create(1, self._event())

    def publish_turn(self) -> None:
        """Publish some events and chunks of a turn; some turns are voided and restarted."""
        self._task.record_decision(Phase.TURN, *self._events())
        self._chunks()
        if self._random.random() < 0.4:
            assert self._task.leases.restart_turn(TASK, self._task.snapshot.position.epoch, self._event(), "me")
            self._chunks()
        assert self._task.commit(*self._events(), agent=self._agent)

    def publish_end(self) -> None:
        """Publish the last message."""
        self.published.append(END)
        self._task.record_decision(Phase.END, status_event(END))

    def _event(self) -> AnyEvent:
        self.published.append(f"event {len(self.published)}")
        return status_event(self.published[-1])

    def _events(self) -> list[AnyEvent]:
        return [self._event() for _ in range(self._random.randrange(3))]

    def _chunks(self) -> None:
        claim = self._task.claim("me")
        for number in range(1, 1 + self._random.randrange(12)):
            self.published.append(f"chunk {len(self.published)}")
            assert emit_chunk(self._task.leases, claim, number, text_chunk(self.published[-1]), USAGE)


class Archive:
    """The archived events of a task, in memory."""

    def __init__(self, task: TaskOnRedis) -> None:
        self._task = task
        self._held: dict[tuple[str, int], Record] = {}

    def trim(self, kept: int) -> None:
        """Archive all events, and remove them from the log except for `kept` and the last one."""
        now = self._task.snapshot
        messages = list(self._task.logs.events(TASK, now.logs.first_event - 1))
        for record in map(json.loads, messages):
            self._held[now.logs.generation, record["seq"]] = record
        keep_from = max(now.logs.first_event, now.logs.events - kept)
        removed = sum(map(len, messages[: keep_from - now.logs.first_event]))
        assert self._task.logs.trim(
            TASK, LogTrim(now.logs.generation, now.logs.first_event, now.logs.events, keep_from, removed)
        )

    def read(self, task_id: str, generation: str, after: int, before: int) -> Iterator[Record]:
        """Return the archived events between these numbers."""
        return (self._held[generation, number] for number in range(after + 1, before))


def no_archive(task_id: str, generation: str, after: int, before: int) -> Iterator[Record]:
    """Return no events, as the workspace of a task does whose log was never trimmed."""
    return iter(())


def text_of(record: Record) -> str:
    """Return the text of the message."""
    return str(record.get("text") or record.get("reason") or record["message"])


async def eventually(condition: Callable[[], object], description: str) -> None:
    """Wait until the condition holds."""
    try:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise AssertionError(f"after 60 s still not: {description}") from error


async def receive(records: AsyncGenerator[Record | None, None], received: list[str], limit: int = 1_000_000) -> None:
    """Append the texts of the messages to `received`, up to this number or until the last message."""
    async with aclosing(records):
        async for record in records:
            if record is not None:
                received.append(text_of(record))
                limit -= 1
            if not limit or received[-1:] == [END]:
                return
