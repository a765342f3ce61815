"""Outages: an unreachable model delays its tasks, pauses them after a while, and ends none of them."""

import re
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.coordinate.outage import MAX_RETRY_AFTER, retry_delay
from roboco.engine.run import turn
from roboco.errors import ModelError, TransientError
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.watch import PortCall, make_call
from tests.support.memory_ports.world import SWEEP_INTERVAL, World, team_of, world_parts

UNREACHABLE = ModelError("connection", "model 'm' cannot be reached: refused", True)
OUTAGE_TIMEOUT = 900.0


class FailingModel:
    """A model server that is down while `error` is set; `requested_at` are the times of its requests."""

    def __init__(self, error: ModelError | None = UNREACHABLE) -> None:
        self.world: World
        self.error = error
        self.texts: tuple[str, ...] = ()
        self.requested_at: list[float] = []

    def __call__(self, request: Any) -> ScriptedReply:
        self.requested_at.append(self.world.clock.now())
        return ScriptedReply(self.texts, error=self.error) if self.error is not None else ScriptedReply(("text",))


def world_with_tasks(server: FailingModel, tasks: int = 1, **profile: Any) -> World:
    """Return a world with this number of tasks, whose team uses this server."""
    world = server.world = World(world_parts(server))
    for number in range(tasks):
        submit(world, number, **profile)
    return world


def submit(world: World, number: int, **profile: Any) -> None:
    team = team_of(agents=[{"name": "one", "prompt": "hi"}], models={"m": {"model": "m"} | profile})
    world.submit(team, task_id=f"t{number}")


def run_for(world: World, seconds: float) -> None:
    """Run the world for this number of seconds."""
    until = world.clock.now() + seconds
    while world.clock.now() < until:
        world.drain()
        world.clock.move(SWEEP_INTERVAL)
        world.sweep()
    world.drain()


def status_reasons(world: World, task_id: str = "t0") -> list[str]:
    """Return the reasons in the status events of the task."""
    return [event["reason"] for event in world.events(task_id) if event["type"] == "event_status"]


def test_an_outage_delays_a_turn_and_ends_no_task() -> None:
    server = FailingModel()
    world = world_with_tasks(server)
    run_for(world, 100)
    assert world.status("t0") is TaskStatus.RUNNING
    assert not any(isinstance(message, TurnMessage) for message in world.dispatcher.queue), "no worker holds it"
    pauses = [after - before for before, after in zip(server.requested_at, server.requested_at[1:], strict=False)]
    assert [round(pause) for pause in pauses] == pytest.approx([1, 2, 4, 8, 16, 32], abs=1.1)
    assert status_reasons(world)[-1] == "one waits: model 'm' cannot be reached: refused; next attempt in 60 s"
    assert world.server.held.tasks["t0"].reason == status_reasons(world)[-1]
    server.error = None
    run_for(world, 100)
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert len(world.history("t0")) == 2, "the history shows no failure"
    assert world.server.held.paused_until == {}, "other turns are not held back"


def test_a_task_is_paused_after_the_timeout_and_continues_when_it_is_resumed() -> None:
    server = FailingModel()
    world = world_with_tasks(server)
    run_for(world, OUTAGE_TIMEOUT + 70)
    assert world.summary("t0").status is TaskStatus.PAUSED
    assert re.fullmatch(
        r"one waits: model 'm' cannot be reached: refused; this has lasted 9\d\d s\. The task continues when it is "
        "resumed, or when the model answers another task",
        world.summary("t0").reason,
    )
    requests = len(server.requested_at)
    run_for(world, 2 * 3600)
    assert len(server.requested_at) == requests, "a paused task sends no requests"
    world.resume("mine", task_id="t0")
    run_for(world, 10)
    assert world.status("t0") is TaskStatus.RUNNING, "it waits for another 900 s"
    assert len(server.requested_at) > requests
    server.error = None
    run_for(world, 70)
    assert world.summary("t0").status is TaskStatus.COMPLETED


@pytest.mark.parametrize("lost", [False, True])
def test_paused_tasks_continue_when_the_model_answers_another_one(lost: bool) -> None:
    server = FailingModel()
    world = world_with_tasks(server, 3, outage_timeout=30)
    run_for(world, 100)
    world.pause("by-a-person", task_id="t1")
    world.drain()
    assert [world.status(f"t{number}") for number in range(3)] == [TaskStatus.PAUSED] * 3
    server.error = None
    if lost:  # the sweeper registers each task again as waiting for the model
        world.server.wipe()
        run_for(world, 30)
    submit(world, 3, outage_timeout=30)
    run_for(world, 30)
    assert [world.summary(f"t{number}").status for number in (0, 2, 3)] == [TaskStatus.COMPLETED] * 3
    assert world.status("t1") is TaskStatus.PAUSED
    assert world.server.held.tasks["t1"].reason == "paused by the user"
    assert not any(world.server.held.awaiting.values())


@pytest.mark.parametrize("act", [World.stop, World.interrupt])
def test_a_control_during_an_outage_is_applied(act: Any) -> None:
    server = FailingModel()
    world = world_with_tasks(server)
    run_for(world, 40)
    act(world, **({"text": "now"} if act is World.interrupt else {}), task_id="t0")
    world.drain()
    server.error = None
    run_for(world, 5)
    expected = TaskStatus.CANCELLED if act is World.stop else TaskStatus.COMPLETED
    assert world.summary("t0").status is expected


def test_an_unreachable_store_delays_a_turn_and_is_named() -> None:
    server = FailingModel(None)
    world = world_with_tasks(server)

    def watch(name: str, call: PortCall) -> Any:
        if name == "rates.reserve":
            raise TransientError("the workspace does not answer: timed out")
        return call()

    world.watch = watch
    run_for(world, 40)
    assert server.requested_at == []
    assert status_reasons(world)[-1] == "one waits: the workspace does not answer: timed out; next attempt in 32 s"
    world.watch = make_call
    run_for(world, 70)
    assert world.summary("t0").status is TaskStatus.COMPLETED


def test_text_that_was_published_before_a_failure_is_void() -> None:
    server = FailingModel(None)
    world = world_with_tasks(server)
    world.given.model.script = lambda request: ScriptedReply(("one ", "two"))
    chunks = 0

    def watch(name: str, call: PortCall) -> Any:
        nonlocal chunks
        if name == "leases.emit":
            chunks += 1
            if chunks == 2:
                raise TransientError("no answer")
        return call()

    world.watch = watch
    run_for(world, 5)
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert [step.text for step in world.history("t0")] == ["go", "one two"]
    [restart] = [event for event in world.events("t0") if event["type"] == "event_turn_restart"]
    assert restart["reason"] == "no answer"


def test_a_step_that_was_stored_before_a_failure_is_kept() -> None:
    server = FailingModel(None)
    world = world_with_tasks(server)
    failed: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        if name.startswith("task_store.commit") and not failed:
            failed.append(name)
            raise TransientError("no answer")
        return call()

    world.watch = watch
    run_for(world, 5)
    assert failed
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert len(server.requested_at) == 1
    assert "event_turn_restart" not in [event["type"] for event in world.events("t0")]


@pytest.mark.parametrize(
    "error", [ValueError("bad \udc80 name https://me:pass@x"), TransientError("bad \udc80 name https://me:pass@x")]
)
def test_the_text_of_an_exception_is_sanitized_before_it_is_published(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn._log, "disabled", True)  # pytest's report of the log accepts Unicode only
    world = world_with_tasks(FailingModel(None))

    def watch(name: str, call: PortCall) -> Any:
        if name == "rates.reserve":
            raise error
        return call()

    world.watch = watch
    run_for(world, 5)
    assert "bad \ufffd name https://***@x" in (world.summary("t0").reason or status_reasons(world)[-1])


def test_retry_delays_grow_up_to_a_minute_and_obey_the_server() -> None:
    never, now, later = (ModelError("status", "503", True, after) for after in (None, 0.0, 30.0))
    assert [retry_delay(never, refusals) for refusals in (0, 1, 5, 6, 100_000)] == [1, 2, 32, 60, 60]
    assert retry_delay(now, 3) == 8, "a server with a Retry-After of 0 is not asked in a loop"
    assert retry_delay(later, 0) == 30
    assert retry_delay(ModelError("status", "503", True, 1e9), 0) == MAX_RETRY_AFTER


def test_a_rate_limit_that_never_ends_pauses_the_task() -> None:
    world = world_with_tasks(FailingModel(ModelError("rate_limit", "model 'm' is at its rate limit (429)", True)))
    run_for(world, OUTAGE_TIMEOUT + 70)
    assert world.summary("t0").status is TaskStatus.PAUSED
    assert "rate limit" in world.summary("t0").reason
