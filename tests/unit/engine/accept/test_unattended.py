"""An open task that waits for a worker although none runs: which pool, for how long, and the remedy."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from roboco.client.stream import WorkerCheck
from roboco.engine.accept.evidence import WaitCause
from roboco.engine.accept.wait_cause import current_cause, missing_worker_messages
from roboco.engine.registration import check_workspace, register
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from roboco.engine.worker_status import workspace_name
from roboco.errors import TransientError, UsageError
from roboco.ports.registry import POOLS, Registration, WorkspaceIdentity
from tests.support.memory_ports.dispatcher import AdvanceMessage, Message, ToolMessage, TurnMessage
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

WORKSPACE_URL = "file:///w on a"
OTHER_WORKSPACE = WorkspaceIdentity("other", "s3://bucket")
TEAM = team_of(
    agents=[{"name": "one", "prompt": "hi", "tools": ["mail"]}], tools=[{"name": "mail", "function": "shop:mail"}]
)


def world_without_workers() -> World:
    """Return a world whose task calls a tool once, and in which no worker runs."""

    def answer(request: Any) -> ScriptedReply:
        answered = any(message["role"] == "tool" for message in request.messages)
        return says("done") if answered else says("", ("mail", {}))

    world = World(world_parts(answer, {"mail": lambda args, context: "sent"}))
    world.submit(TEAM)
    return world


def take_next(kind: type[Message], world: World) -> Any:
    """Deliver messages until one of the kind is next. Return it."""
    while not isinstance(message := world.dispatcher.queue.popleft(), kind):
        world.deliver(message)
    return message


def register_worker(world: World, *pools: str) -> None:
    registry = MemoryWorkerRegistry(world.server, world.clock, f"{pools[0]}@x")
    assert registry.register(Registration(pools, (), workspace_name(world.files, WORKSPACE_URL)), False) is None


def start_worker(world: World, pool: str) -> None:
    """Start a worker of the pool."""
    worker = Registration((pool,), (), workspace_name(world.files, WORKSPACE_URL))
    register(world.engine.services.workers, world.engine.tasks.schedule, world.files, worker)


def missing_worker(world: World) -> str:
    cause = current_cause(world.process(), WORKSPACE_URL, TASK)
    return "" if cause is None else cause.text


@pytest.mark.parametrize(
    ("kind", "pool"), [(AdvanceMessage, "coordinator"), (TurnMessage, "agents"), (ToolMessage, "tools")]
)
def test_the_pool_that_has_to_act_is_named(kind: type[Message], pool: str) -> None:
    world = world_without_workers()
    take_next(kind, world)
    assert (
        missing_worker(world) == "no worker is registered; start one for all pools: celery -A roboco.workers.app worker"
    )
    others = [one for one in POOLS if one != pool]
    register_worker(world, *others)
    assert missing_worker(world) == f"no {pool} worker is registered; start one: celery -A roboco.workers.{pool} worker"
    register_worker(world, pool)
    assert missing_worker(world) == ""
    world.clock.move(12)
    assert missing_worker(world).startswith("no worker for 12 s; start one for all pools")
    register_worker(world, *others)
    assert missing_worker(world) == f"no {pool} worker for 12 s; start one: celery -A roboco.workers.{pool} worker"


@pytest.mark.parametrize(("kind", "work"), [(TurnMessage, run_turn), (ToolMessage, run_call)])
def test_a_task_whose_worker_crashed_waits_for_a_worker_after_the_lease(
    kind: type[Message], work: Callable[..., object]
) -> None:
    world = world_without_workers()
    order = take_next(kind, world).assignment

    def crash(name: str, call: Any) -> Any:
        if name in ("model.stream", "toolbox.run"):
            seen.append(missing_worker(quiet))
            raise Crash
        return call()

    seen: list[str] = []
    quiet = world
    world.watch = crash
    with pytest.raises(Crash):
        work(world.engine, order)
    world.watch = lambda name, call: call()
    assert seen == [""], "a worker runs the turn or call"
    world.clock.move(world.given.policy.lease)
    assert missing_worker(world).startswith("no worker")


def test_a_task_that_waits_for_the_user_awaits_no_worker_until_a_message_arrives() -> None:
    world = world_without_workers()
    world.pause()
    world.send("more")
    world.settle()
    assert missing_worker(world) == ""  # the message waits for the resumption
    world.resume()
    assert missing_worker(world).startswith("no worker")


def test_the_pools_without_a_worker_are_listed() -> None:
    world = world_without_workers()
    register_worker(world, "agents")
    world.clock.move(5)
    assert [text.split(";")[0] for text in missing_worker_messages(world.process())] == [
        "no coordinator worker is registered",
        "no tools worker is registered",
    ]


def test_a_workspace_other_than_that_of_the_coordinators_is_named() -> None:
    world = world_without_workers()
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(
        Registration(("coordinator",), (), OTHER_WORKSPACE), False
    )
    message = missing_worker(world)
    assert message == (
        "this client uses the workspace file:///w on a, the others s3://bucket: set ROBOCO_WORKSPACE to the same "
        "workspace for all. If these are two deployments, give each its own ROBOCO_PREFIX and ROBOCO_BROKER_URL"
    )
    with pytest.raises(UsageError, match="the others s3://bucket"):
        check_workspace(world.engine, WORKSPACE_URL)
    with pytest.raises(UsageError, match="worker 'worker@here' uses the workspace file:///w on a"):
        start_worker(world, "tools")


def test_a_coordinator_with_the_open_tasks_replaces_one_with_a_wrong_workspace() -> None:
    world = world_without_workers()
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(
        Registration(("coordinator",), (), OTHER_WORKSPACE), False
    )
    with pytest.raises(UsageError, match="the others s3://bucket"):
        check_workspace(world.engine, WORKSPACE_URL)
    with pytest.raises(UsageError, match="the others s3://bucket"):
        start_worker(world, "coordinator")  # the other coordinator still runs
    world.clock.move(1000)
    check_workspace(world.process(), WORKSPACE_URL)
    start_worker(world, "coordinator")
    assert world.engine.services.workers.workspace() == workspace_name(world.files, WORKSPACE_URL)


def test_a_follower_logs_that_no_worker_runs(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_without_workers()
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    worker_check = WorkerCheck(TASK, lambda: current_cause(world.engine, WORKSPACE_URL, TASK))
    worker_check.check()
    assert worker_check.missing_worker == ""
    for now[0] in (1010.0, 1015.0, 1069.0, 1075.0):
        worker_check.check()
    assert worker_check.missing_worker.startswith("no worker is registered")
    assert len(caplog.records) == 2
    assert caplog.messages[0] == f"task {TASK} waits: {worker_check.missing_worker}"

    def refuse(name: str, call: Any) -> Any:
        raise TransientError("no answer")

    world.watch, now[0] = refuse, 2000.0
    worker_check.check()
    assert len(caplog.records) == 2


def test_a_command_that_starts_a_worker_names_other_causes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cause = WaitCause("no_worker", "no worker is registered; start one")
    worker_check = WorkerCheck(TASK, lambda: cause)
    worker_check.has_own_worker = True
    now[0] += 20
    worker_check.check()
    assert worker_check.missing_worker == ""
    cause = WaitCause("model_silent", "model 'm' has sent nothing for 20 s")
    now[0] += 20
    worker_check.check()
    assert worker_check.missing_worker == cause.text


def test_the_error_for_a_recreated_workspace_names_the_cause() -> None:
    world = world_without_workers()
    before = WorkspaceIdentity("before", WORKSPACE_URL)
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(Registration(("coordinator",), (), before), False)
    with pytest.raises(UsageError, match="which was deleted and made again, or lost its _workspace"):
        start_worker(world, "coordinator")
