"""Teams in a Celery canvas while workers are killed: each completes, although workers lose messages."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain

import roboco
from roboco.domain.ids import team_task_id
from roboco.domain.paths import NOTIFY_MARKERS, summary_path
from tests.support.celery_shops import shop_app
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

TEAM = {"name": "echo", "agents": [{"name": "echo", "prompt": "echo"}]}
TEAMS = 12
KILLS = ("shop", "coordinator", "shop")
"""The pools whose workers are killed in order, each after a further publication."""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path, pools=("agents", "tools")) as running:
        running.model.script(lambda request: Reply(text=f"read {request.last_user}", delay=4.0))
        for pool, modules in (("coordinator", "tests.support.fast_redelivery"), ("shop", "tests.support.celery_shops")):
            running.start(pool, modules=modules)
            running.wait_ready(pool)
        yield running


def read_published(stack: Stack) -> list[str]:
    """Return the lines that the shop has published."""
    path = stack.folder / "shop.txt"
    return path.read_text().splitlines() if path.exists() else []


def test_teams_complete_although_their_workers_are_killed(stack: Stack) -> None:
    """Celery on Redis may lose the shop's messages with its worker. Results of teams are never lost."""
    with shop_app(stack.valkey.url, stack.settings) as app:
        results = [start_team(app, number) for number in range(TEAMS)]
        tasks = [team_task_id(result.parent.id) for result in results]
        files = stack.orchestrator._engine.workspace.files
        until(lambda: all(files.get(summary_path(task_id)) for task_id in tasks), 60, "all are submitted")
        for number, pool in enumerate(KILLS):
            until(lambda least=number: len(read_published(stack)) > least, 90, "more is published")  # type: ignore[misc]
            stack.kill(pool)
            stack.workers[pool].process.wait()
            stack.start(
                pool, modules="tests.support.celery_shops" if pool == "shop" else "tests.support.fast_redelivery"
            )
        for number, result in enumerate(results):
            assert result.parent.get(timeout=120) == f"read text {number}"
        until(lambda: not files.names(NOTIFY_MARKERS), 60, "all notifications are confirmed")
    counts = Counter(read_published(stack))
    assert set(counts) <= {f"published read text {number}" for number in range(TEAMS)}
    assert sum(counts.values()) - len(counts) <= len(KILLS)  # a kill may hit between a publication and its confirmation


def start_team(app: Celery, number: int) -> Any:
    return chain(roboco.team(TEAM, app=app).s(f"text {number}"), app.signature("shop.publish")).apply_async()
