"""An open task that waits for a worker which does not live: which one, for how long, and what to do."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from roboco.client.worker_check import WorkerCheck
from roboco.domain.paths import WORKSPACE_FILE, summary_path
from roboco.engine.execution.tool_call import run_call
from roboco.engine.execution.turn import run_turn
from roboco.engine.intake.unattended import missing_worker_messages, why_unattended
from roboco.engine.registration import Registration, check_workspace, register
from roboco.engine.worker_status import workspace_name
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.registry import POOLS, WorkspaceIdentity
from tests.support.memory_ports.dispatcher import AdvanceMessage, Message, ToolMessage, TurnMessage
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, given, team_of

HERE = "file:///w on a"
OTHER = WorkspaceIdentity("other", "s3://bucket")
TEAM = team_of(
    agents=[{"name": "one", "prompt": "hi", "tools": ["mail"]}], tools=[{"name": "mail", "function": "shop:mail"}]
)


def begun() -> World:
    """A world whose task calls a tool once, and where no worker lives."""

    def answer(request: Any) -> Said:
        answered = any(message["role"] == "tool" for message in request.messages)
        return said("done") if answered else said("", ("mail", {}))

    world = World(given(answer, {"mail": lambda args, context: "sent"}))
    world.submit(TEAM)
    return world


def next_of(kind: type[Message], world: World) -> Any:
    """Deliver until a message of the kind is next; return it."""
    while not isinstance(message := world.dispatcher.queue.popleft(), kind):
        world.deliver(message)
    return message


def live(world: World, *pools: str) -> None:
    registry = MemoryWorkerRegistry(world.server, world.clock, f"{pools[0]}@x")
    assert registry.register(pools, (), workspace_name(world.files, HERE), False) is None


def start(world: World, pool: str) -> None:
    """Start a worker of the pool."""
    register(
        world.engine.workers,
        world.engine.schedule,
        Registration((pool,), (), workspace_name(world.files, HERE), world.files),
    )


def missing(world: World) -> str:
    return why_unattended(world.process(), HERE, TASK)


@pytest.mark.parametrize(
    ("kind", "pool"), [(AdvanceMessage, "coordinator"), (TurnMessage, "agents"), (ToolMessage, "tools")]
)
def test_the_pool_that_has_to_act_is_named(kind: type[Message], pool: str) -> None:
    world = begun()
    next_of(kind, world)
    assert missing(world) == "no worker is registered; start one for all pools: celery -A roboco.workers.app worker"
    others = [one for one in POOLS if one != pool]
    live(world, *others)
    assert missing(world) == f"no {pool} worker is registered; start one: celery -A roboco.workers.{pool} worker"
    live(world, pool)
    assert missing(world) == ""
    world.clock.move(12)
    assert missing(world).startswith("no worker for 12 s; start one for all pools")
    live(world, *others)
    assert missing(world) == f"no {pool} worker for 12 s; start one: celery -A roboco.workers.{pool} worker"


@pytest.mark.parametrize(("kind", "work"), [(TurnMessage, run_turn), (ToolMessage, run_call)])
def test_a_worker_that_died_at_work_leaves_the_task_to_the_coordinators(
    kind: type[Message], work: Callable[..., object]
) -> None:
    world = begun()
    order = next_of(kind, world).assignment

    def die(name: str, call: Any) -> Any:
        if name in ("model.stream", "toolbox.run"):
            seen.append(missing(quiet))
            raise Crash
        return call()

    seen: list[str] = []
    quiet = world
    world.watch = die
    with pytest.raises(Crash):
        work(world.engine, order)
    world.watch = lambda name, call: call()
    assert seen == [""], "a worker is making the turn or call"
    world.clock.move(world.given.policy.lease)
    assert missing(world).startswith("no worker")


def test_a_task_that_waits_for_a_person_awaits_no_worker_until_a_message_comes() -> None:
    world = begun()
    world.pause()
    world.settle()
    assert missing(world) == ""
    world.resume()
    assert missing(world).startswith("no worker")


def test_the_pools_without_a_worker_are_listed() -> None:
    world = begun()
    live(world, "agents")
    world.clock.move(5)
    assert [text.split(";")[0] for text in missing_worker_messages(world.process())] == [
        "no coordinator worker is registered",
        "no tools worker is registered",
    ]


def test_another_workspace_than_the_coordinators_is_named() -> None:
    world = begun()
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(("coordinator",), (), OTHER, False)
    told = missing(world)
    assert told == (
        "this client uses the workspace file:///w on a, the others s3://bucket: set ROBOCO_WORKSPACE to the same "
        "workspace for all, or ROBOCO_PREFIX to another name if these are two deployments"
    )
    with pytest.raises(UsageError, match="the others s3://bucket"):
        check_workspace(world.engine, HERE)
    with pytest.raises(UsageError, match="worker 'worker@here' uses the workspace file:///w on a"):
        start(world, "tools")


def test_a_coordinator_without_the_open_tasks_of_the_recorded_workspace_is_refused() -> None:
    world = begun()
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(("coordinator",), (), OTHER, False)
    world.clock.move(1000)  # no coordinator lives
    del world.files.held[summary_path(TASK)]
    with pytest.raises(UsageError, match="delete the key 'workspace' in Redis"):
        start(world, "coordinator")
    start(world, "tools")  # which cannot know
    world.server.held.schedule.clear()
    start(world, "coordinator")
    assert world.engine.workers.workspace() == workspace_name(world.files, HERE)


def test_a_coordinator_with_the_open_tasks_replaces_one_that_was_started_in_a_wrong_folder() -> None:
    world = begun()
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(("coordinator",), (), OTHER, False)
    with pytest.raises(UsageError, match="the others s3://bucket"):
        check_workspace(world.engine, HERE)
    with pytest.raises(UsageError, match="the others s3://bucket"):
        start(world, "coordinator")  # the other one still lives
    world.clock.move(1000)
    check_workspace(world.process(), HERE)
    start(world, "coordinator")
    assert world.engine.workers.workspace() == workspace_name(world.files, HERE)


def test_a_workspace_has_one_id() -> None:
    world = begun()
    first = workspace_name(world.files, HERE)
    assert workspace_name(world.files, "another address").id == first.id
    world.files.held[WORKSPACE_FILE] = b'{"id": "a b"}'
    with pytest.raises(CorruptHistory, match="does not hold an id: delete it"):
        workspace_name(world.files, HERE)


def test_who_follows_a_task_logs_that_no_worker_attends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = begun()
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    looks = WorkerCheck(TASK, lambda: why_unattended(world.engine, HERE, TASK))
    looks.check()
    assert looks.missing_worker == ""
    for now[0] in (1010.0, 1015.0, 1069.0, 1075.0):
        looks.check()
    assert looks.missing_worker.startswith("no worker is registered")
    assert len(caplog.records) == 2
    assert caplog.messages[0] == f"task {TASK} waits: {looks.missing_worker}"

    def refuse(name: str, call: Any) -> Any:
        raise TransientError("no answer")

    world.watch, now[0] = refuse, 2000.0
    looks.check()
    assert len(caplog.records) == 2


def test_a_coordinator_is_awaited_when_all_calls_have_outcomes() -> None:
    world = begun()
    order = next_of(ToolMessage, world).assignment
    live(world, "agents", "tools")
    run_call(world.engine, order)
    assert missing(world).startswith("no coordinator worker")


@pytest.mark.parametrize("control", ["stop", "pause"])
def test_a_coordinator_is_awaited_when_a_turn_that_no_worker_has_begun_is_to_end(control: str) -> None:
    world = begun()
    next_of(TurnMessage, world)
    live(world, "agents", "tools")
    assert missing(world) == ""
    getattr(world, control)()
    assert missing(world).startswith("no coordinator worker")


def test_a_workspace_that_was_deleted_and_made_again_is_named_as_that() -> None:
    world = begun()
    before = WorkspaceIdentity("before", HERE)
    MemoryWorkerRegistry(world.server, world.clock, "c@x").register(("coordinator",), (), before, False)
    with pytest.raises(UsageError, match="which was deleted and made again, or lost its _workspace"):
        start(world, "coordinator")
