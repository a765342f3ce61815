"""Reads of the task index for streams of lists: one for all streams of a list."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from roboco.gateway.calls import CallLine
from roboco.gateway.streams import task_list_source
from roboco.gateway.streams.task_list_source import MAX_TASKS_READ, TaskLists

SINCE = datetime(2026, 1, 31, tzinfo=UTC)


def test_the_streams_of_a_list_share_a_read_of_its_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_list_source, "SHARED_SECONDS", 60.0)

    async def main() -> None:
        reads, line = list[dict[str, Any]](), CallLine("read", 16, 64, 30.0)

        def page(**options: Any) -> Any:
            reads.append(options)
            return SimpleNamespace(entries=(), cursor="", complete=True)

        lists = TaskLists(page, line)
        found = [lists.of("acme", ["desk", "lab"], "") for _ in range(20)]
        await asyncio.gather(*(one.read(SINCE, MAX_TASKS_READ) for one in found))
        asked = {"limit": MAX_TASKS_READ, "tenant": "acme", "team": ["desk", "lab"], "since": SINCE, "text": ""}
        assert reads == [asked]
        line.close()

    asyncio.run(main())
