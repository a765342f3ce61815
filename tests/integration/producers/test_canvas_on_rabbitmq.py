"""Teams in the canvas of a shop whose Celery application has RabbitMQ as its broker."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, chain
from celery.exceptions import TaskRevokedError

import roboco
from roboco import TaskFailed
from roboco.domain.ids import team_task_id
from roboco.domain.paths import notifications_path, open_marker_path
from tests.conftest import need
from tests.support.celery_shops import shop_app
from tests.support.servers.model_server import Reply, Request
from tests.support.servers.rabbitmq import RabbitServer, find_rabbitmq, start_rabbitmq
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

TEAM = {"name": "research", "agents": [{"name": "reader", "prompt": "reader"}]}
SHOP_IS_KILLED = threading.Event()
"""Set when the text about "killed" may be given."""


def answer(request: Request) -> Reply:
    """Return the text about the notes in the prompt. "refuse" is an error, "dawdle" a slow one, "killed" a held one."""
    if "refuse" in request.last_user:
        return Reply(status=400, text="the model refuses")
    if "dawdle" in request.last_user:
        return Reply(text="slowly " * 600, chunks=600, interval=0.1)
    held = SHOP_IS_KILLED if "killed" in request.last_user else None
    return Reply(text=f"read {request.last_user}", held_until=held)


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    need(find_rabbitmq)
    server = start_rabbitmq(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module", params=["callback_broker_url", pytest.param("broker_url", marks=pytest.mark.nightly)])
def stack(request: Any, rabbit: RabbitServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield workers with RabbitMQ for callbacks alone, and workers with RabbitMQ as their own broker too."""
    changes: dict[str, Any] = {request.param: rabbit.url}
    with Stack(tmp_path_factory.mktemp("stack"), **changes) as running:
        running.model.script(answer)
        running.start(
            "shop", modules="tests.support.celery_shops", SHOP_URL=rabbit.url, SHOP_RESULTS=running.valkey.url
        )
        running.wait_ready("shop")
        yield running


@pytest.fixture
def app(stack: Stack, rabbit: RabbitServer) -> Iterator[Celery]:
    with shop_app(rabbit.url, stack.settings, results=stack.valkey.url) as made:
        yield made


def shop_lines(stack: Stack, word: str) -> list[str]:
    """Return the lines that Celery tasks of the shop wrote and that contain the word."""
    path = stack.folder / "shop.txt"
    return [line for line in path.read_text().splitlines() if word in line] if path.exists() else []


def test_a_chain_continues_with_the_text_of_the_team(stack: Stack, app: Celery) -> None:
    steps = (app.signature("shop.fetch", ("tides",)), roboco.team(TEAM, app=app).s(), app.signature("shop.publish"))
    result: Any = chain(*steps).apply_async()
    assert result.get(timeout=60) == {"published": "read notes on tides"}
    assert shop_lines(stack, "tides") == ["published read notes on tides"]
    files, notices = stack.orchestrator._engine.workspace.files, notifications_path(team_task_id(result.parent.id))
    until(lambda: not files.names(notices), 60, "the notification is confirmed")


def test_a_failed_team_fails_its_chain_and_a_revoked_team_stops(stack: Stack, app: Celery) -> None:
    failing: Any = chain(roboco.team(TEAM, app=app).s("refuse"), app.signature("shop.publish")).apply_async(
        link_error=app.signature("shop.complain")
    )
    with pytest.raises(TaskFailed, match="the model refuses"):
        failing.get(timeout=60)
    until(lambda: shop_lines(stack, f"complained {failing.parent.id}"), 60, "link_error ran")
    slow = roboco.team(TEAM, app=app).s("dawdle").apply_async()
    files, task_id = stack.orchestrator._engine.workspace.files, team_task_id(slow.id)
    until(lambda: files.get(open_marker_path(task_id)) is not None, 60, "the team is submitted")
    slow.revoke()
    with pytest.raises(TaskRevokedError):
        slow.get(timeout=60)
    until(lambda: stack.orchestrator.task(task_id).summary().status == "cancelled", 60, "the team is stopped")


def test_a_chain_continues_after_a_worker_of_the_shop_is_killed(
    stack: Stack, app: Celery, rabbit: RabbitServer
) -> None:
    """Messages stay in RabbitMQ until the next worker of the shop continues the chain of the team that has ended."""
    SHOP_IS_KILLED.clear()
    result: Any = chain(roboco.team(TEAM, app=app).s("killed"), app.signature("shop.publish")).apply_async()
    task_id = team_task_id(result.parent.id)
    until(
        lambda: stack.orchestrator._engine.workspace.files.get(open_marker_path(task_id)) is not None,
        30,
        "the team is submitted",
    )
    stack.kill("shop")
    stack.workers["shop"].process.wait()
    SHOP_IS_KILLED.set()
    assert stack.orchestrator.task(task_id).result(60).status == "completed"
    stack.start("shop", modules="tests.support.celery_shops", SHOP_URL=rabbit.url, SHOP_RESULTS=stack.valkey.url)
    assert result.get(timeout=120) == {"published": "read killed"}
    assert len(shop_lines(stack, "killed")) >= 1
