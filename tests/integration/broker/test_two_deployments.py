"""Two deployments on one server: neither takes the messages, nor receives the streams, of the other."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from roboco import Orchestrator, Settings, UsageError
from roboco.broker.broker_owner import OWNER
from roboco.domain.paths import summary_path
from roboco.local.valkey import start_valkey
from tests.conftest import need
from tests.support import forked
from tests.support.journeys import SEQUENTIAL as TEAM
from tests.support.journeys import answer
from tests.support.servers.rabbitmq import find_rabbitmq, start_rabbitmq
from tests.support.stack import LONG_LEASE, ROOT, Stack, until

pytestmark = pytest.mark.workers


def run_until_ready_or_ended(stack: Stack, pool: str, settings: Settings, name: str) -> tuple[int | None, str]:
    """Start a worker with these settings beside the stack's; return its exit code, or None, and its output."""
    log = stack.folder / f"{name}-{pool}.log"
    environment = stack.environment | settings.environment()
    arguments = ["-A", f"roboco.workers.{pool}", "worker", "-l", "INFO", "-n", name]
    log.touch()
    worker = forked.start(pool, arguments, env=environment, log=log, cwd=ROOT)
    try:
        until(lambda: not worker.alive() or " ready." in log.read_text(), 60, f"{name} is ready or has ended")
        ended = worker.process.poll()
    finally:
        worker.stop()
    return ended, log.read_text()


def other_deployment(stack: Stack, **changes: object) -> Settings:
    return stack.settings.model_copy(update={"workspace": f"file://{stack.folder}/other", **changes})


def database(redis_url: str, number: int) -> str:
    return f"{redis_url.rpartition('/')[0]}/{number}"


def has_summary(stack: Stack, task_id: str) -> bool:
    return Path(stack.settings.workspace.removeprefix("file://"), summary_path(task_id)).exists()


def submit_with_celery(stack: Stack, task_id: str) -> None:
    team = TEAM.team.model_dump(mode="json", by_alias=True, exclude_none=True)
    arguments = {"team": team, "task_id": task_id, "prompt": TEAM.prompt}
    with Celery(broker=stack.settings.broker) as shop:
        shop.send_task("roboco.submit", kwargs=arguments, queue="roboco.coordinator")


@pytest.mark.parametrize("pool", ["coordinator", "tools"])
def test_a_worker_of_another_prefix_does_not_start_on_the_broker(folder_stack: Stack, pool: str) -> None:
    code, output = run_until_ready_or_ended(folder_stack, pool, other_deployment(folder_stack, prefix="b"), "other")
    assert code == 1
    assert "carries the messages of another deployment (ROBOCO_PREFIX='roboco', workspace " in output
    assert "this one has ROBOCO_PREFIX='b', workspace " in output
    assert (
        f"in ROBOCO_BROKER_URL of this one. If the other deployment is gone for good, delete the key {OWNER!r}"
        in output
    )


def test_a_worker_of_another_workspace_does_not_start_on_the_broker(folder_stack: Stack, tmp_path: Path) -> None:
    own = start_valkey(tmp_path)
    settings = other_deployment(folder_stack, redis_url=own.url, broker_url=folder_stack.settings.redis_url)
    try:
        code, output = run_until_ready_or_ended(folder_stack, "coordinator", settings, "other")
    finally:
        own.stop()
    assert code == 1
    assert "carries the messages of another deployment" in output


def test_deployments_with_their_own_broker_databases_run_side_by_side(folder_stack: Stack, tmp_path: Path) -> None:
    redis_url = folder_stack.settings.redis_url
    own: dict[str, Any] = {
        "prefix": "b",
        "broker_url": database(redis_url, 5),
        "workspace": f"file://{tmp_path}/workspace",
    }
    with Stack(tmp_path, around=lambda _: nullcontext({"redis_url": redis_url}), lease_seconds=LONG_LEASE, **own) as b:
        b.model.script(answer)
        tasks = [(stack, f"both-{number}") for number in range(3) for stack in (folder_stack, b)]
        for stack, task_id in tasks:
            submit_with_celery(stack, task_id)
        for stack, task_id in tasks:
            until(partial(has_summary, stack, task_id), 60, f"{task_id} is accepted")
            assert stack.orchestrator.task(task_id).result(60).status == "completed"
            assert len(stack.orchestrator.task(task_id).history()) == len(TEAM.expected)


@pytest.mark.slow
def test_a_worker_of_another_prefix_does_not_start_on_the_virtual_host(tmp_path: Path) -> None:
    need(find_rabbitmq)
    rabbit = start_rabbitmq(tmp_path / "rabbitmq")
    try:
        with Stack(tmp_path, pools=("coordinator",), broker_url=rabbit.url) as stack:
            changed = other_deployment(stack, prefix="b.2")
            code, output = run_until_ready_or_ended(stack, "agents", changed, "other")
            assert code == 1
            assert "carries the messages of another deployment (ROBOCO_PREFIX='roboco', workspace " in output
            assert f"delete the exchange {OWNER!r}" in output
            with Orchestrator(changed) as client, pytest.raises(UsageError, match="another deployment"):
                client.run(TEAM.team, "hello")
            code, output = run_until_ready_or_ended(stack, "agents", stack.settings, "same")
            assert code is None, output
    finally:
        rabbit.stop()
