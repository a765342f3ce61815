"""Outages: an unreachable model delays its tasks, pauses them after a while, and ends none of them."""

from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.run import turn
from roboco.errors import ModelError, TransientError
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.watch import PortCall, make_call, refusing
from tests.support.memory_ports.world import SWEEP_INTERVAL, World, team_of, world_parts

OUTAGE_TIMEOUT = 900.0


UNREACHABLE = ModelError("connection", "model 'm' cannot be reached: refused", True)


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
    world.watch = refusing("rates.reserve", "the workspace does not answer: timed out")
    run_for(world, 40)
    assert server.requested_at == []
    assert status_reasons(world)[-1] == "one waits: the workspace does not answer: timed out; next attempt in 32 s"
    world.watch = make_call
    run_for(world, 70)
    assert world.summary("t0").status is TaskStatus.COMPLETED


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


def test_a_rate_limit_that_never_ends_pauses_the_task() -> None:
    world = world_with_tasks(FailingModel(ModelError("rate_limit", "model 'm' is at its rate limit (429)", True)))
    run_for(world, OUTAGE_TIMEOUT + 70)
    assert world.summary("t0").status is TaskStatus.PAUSED
    assert "rate limit" in world.summary("t0").reason
