"""Stop: when it returns, the task has ended for every reader."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from roboco.client.receipt import Receipt, find_receipt, is_final
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from tests.support.gateway_rest import RestWorld, rest_world
from tests.support.memory_ports.journeys import SEQUENTIAL
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import World, world_parts

TASK = "acme:t"


@contextmanager
def stopping(folder: Path) -> Iterator[tuple[RestWorld, Task]]:
    """Yield a task that is asked to stop, while a coordinator applies that with a slow store."""
    with rest_world(folder) as rest:
        rest.world.submit(rest.orchestrator.team("desk"), task_id=TASK)
        task = rest.orchestrator.task(TASK)
        task.stop(item_id="stop1")

        def slowly(name: str, call: PortCall) -> Any:
            if name == "files.replace" and threading.current_thread() is coordinator:
                time.sleep(0.05)
            return call()

        rest.world.watch = slowly
        coordinator = threading.Thread(target=rest.world.settle, args=(TASK,))
        coordinator.start()
        try:
            yield rest, task
        finally:
            coordinator.join()


def stop(task: Task) -> Receipt:
    return task.stop(item_id="stop1", timeout=60)


@pytest.mark.parametrize("in_loop", [False, True])
def test_the_task_has_ended_when_stop_returns(tmp_path: Path, in_loop: bool) -> None:
    with stopping(tmp_path) as (_, task):
        receipt = asyncio.run(task.astop(item_id="stop1", timeout=60)) if in_loop else stop(task)
        assert receipt.applied_at_seq == 1, receipt
        assert task.stored_summary().status is TaskStatus.CANCELLED


def test_the_task_has_ended_when_a_stop_over_http_returns(tmp_path: Path) -> None:
    with stopping(tmp_path) as (rest, _):
        sent = rest.post("/v1/tasks/t/stop?wait=20", {"item_id": "stop1"})
        assert (sent.status_code, sent.json()["applied_at_seq"]) == (202, 1), sent.text
        assert rest.get("/v1/tasks/t/result").json()["status"] == "cancelled"


def test_every_view_has_the_end_that_the_stream_shows_before_the_workspace_has_it(tmp_path: Path) -> None:
    with rest_world(tmp_path) as rest:
        rest.world.submit(rest.orchestrator.team("desk"), task_id=TASK)
        task, seen = rest.orchestrator.task(TASK), set[tuple[str, str, str, bool]]()
        task.stop(item_id="stop1")

        def look(name: str, call: PortCall) -> Any:
            if (
                name == "files.replace"
                and (live := rest.world.engine.tasks.task_store.load(TASK, 1))
                and live.position.status.ended
            ):
                shown, result = (rest.get(f"/v1/tasks/t{path}").json()["status"] for path in ("", "/result"))
                seen.add((task.status, shown, result, task.is_at_rest()))
            return call()

        rest.world.watch = look
        rest.world.settle(TASK)
        assert seen == {("cancelled", "cancelled", "cancelled", False)}
        assert task.is_at_rest()


def test_a_stop_of_a_task_that_has_ended_is_expired(tmp_path: Path) -> None:
    with stopping(tmp_path) as (_, task):
        stop(task)
        later = task.stop(item_id="stop2", timeout=60)
        assert (later.item_id, later.applied_at_seq, later.expired) == ("stop2", None, True)
        assert asyncio.run(task.astop(timeout=60)).expired


def test_a_stop_of_a_task_that_is_not_submitted_yet_is_pending() -> None:
    world = World(world_parts(lambda request: says("x")))
    world.stop("stop1", task_id=TASK)
    assert not is_final(find_receipt(world.engine.workspace, TASK, "stop1"))
    world.submit(SEQUENTIAL.team, task_id=TASK)
    world.settle(TASK)
    assert find_receipt(world.engine.workspace, TASK, "stop1").applied_at_seq == 1
