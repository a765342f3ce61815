"""Lists of tasks from the task index, beside real workers."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roboco.redis.keys import Keys
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


@pytest.fixture(autouse=True)
def _script_answers(folder_stack: Stack) -> None:
    folder_stack.model.script(answer)


def test_lists_follow_tasks_and_are_rebuilt_after_a_loss(folder_stack: Stack) -> None:
    orchestrator, began = folder_stack.orchestrator, datetime.now(UTC) - timedelta(seconds=1)
    waiting = orchestrator.run(MANUAL.team, MANUAL.prompt, tenant="lists", title="The first Title")
    waiting.result(60)

    def listed(**filters: Any) -> list[str]:
        return [entry.task_id for entry in orchestrator.tasks(tenant="lists", **filters)]

    until(lambda: listed(status="user_turn") == [waiting.task_id], 60, "the waiting task is listed")
    ended = orchestrator.run(GRAPH.team, GRAPH.prompt, tenant="lists", title="Another one")
    ended.result(60)
    until(lambda: listed(status="ended", since=began) == [ended.task_id], 60, "the ended task is listed")
    assert listed(team=MANUAL.team.name, text="first title") == [waiting.task_id]
    assert listed(until=began) == []
    page = asyncio.run(orchestrator.atask_page(tenant="lists", limit=1))
    assert [page.entries[0].task_id, bool(page.cursor)] == [ended.task_id, True]
    before = list(orchestrator.tasks(tenant="lists"))
    client, keys = orchestrator._client, Keys(folder_stack.settings.prefix)
    client.delete(*client.scan_iter(f"{keys.prefix}:{{index}}:*", count=1000))
    until(lambda: orchestrator.task_page().complete, 60, "the index is complete")
    after = list(orchestrator.tasks(tenant="lists"))
    assert [entry.model_dump(exclude={"epoch"}) for entry in after] == [
        entry.model_dump(exclude={"epoch"}) for entry in before
    ]
