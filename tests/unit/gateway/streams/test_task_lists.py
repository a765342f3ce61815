"""Reads of the task index for streams of lists: one for all streams of a list, and few at the same time."""

import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from roboco.gateway.calls import OWNER, CallLine
from roboco.gateway.streams import task_list_source
from roboco.gateway.streams.task_list_source import MAX_READS, MAX_TASKS_READ, TaskLists

SINCE = datetime(2026, 1, 31, tzinfo=UTC)


class Index:
    """A task index that answers once a test lets it."""

    def __init__(self) -> None:
        self.reads = list[dict[str, Any]]()
        self.may_answer = threading.Event()

    def page(self, **options: Any) -> Any:
        """Return an empty page."""
        self.reads.append(options)
        assert self.may_answer.wait(60)
        return SimpleNamespace(entries=(), cursor="", complete=True)


def test_streams_of_many_lists_leave_threads_and_places_to_other_reads() -> None:
    async def main() -> None:
        index, line = Index(), CallLine("read", 16, 64, 30.0)
        lists = TaskLists(index.page, line)
        found = [lists.of("acme", None, str(number)) for number in range(200)]
        reads = [asyncio.create_task(one.read(SINCE, MAX_TASKS_READ)) for one in found]
        await asyncio.sleep(0)
        assert await line.run(lambda: "another") == "another"
        assert len(index.reads) <= MAX_READS
        index.may_answer.set()
        await asyncio.gather(*reads)
        assert {read["text"] for read in index.reads} == set(map(str, range(200)))
        line.close()

    asyncio.run(main())


def test_many_lists_of_one_owner_do_not_delay_a_list_of_another() -> None:
    async def read(lists: TaskLists, owner: str, text: str) -> None:
        OWNER.set(owner)
        await lists.of(owner, None, text).read(SINCE, MAX_TASKS_READ)

    async def main() -> None:
        index, line = Index(), CallLine("read", 16, 64, 30.0)
        lists = TaskLists(index.page, line)
        slow = [asyncio.create_task(read(lists, "acme", str(number))) for number in range(50)]
        other = asyncio.create_task(read(lists, "other", ""))
        for _ in range(20):
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while "other" not in [one["tenant"] for one in index.reads]:
                await asyncio.sleep(0.001)
        assert len(index.reads) <= MAX_READS
        index.may_answer.set()
        await asyncio.gather(*slow, other)
        line.close()

    asyncio.run(main())


def test_the_streams_of_a_list_share_a_read_of_its_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_list_source, "SHARED_SECONDS", 60.0)

    async def main() -> None:
        index, line = Index(), CallLine("read", 16, 64, 30.0)
        index.may_answer.set()
        lists = TaskLists(index.page, line)
        found = [lists.of("acme", ["desk", "lab"], "") for _ in range(20)]
        await asyncio.gather(*(one.read(SINCE, MAX_TASKS_READ) for one in found))
        asked = {"limit": MAX_TASKS_READ, "tenant": "acme", "team": ["desk", "lab"], "since": SINCE, "text": ""}
        assert index.reads == [asked]
        line.close()

    asyncio.run(main())
