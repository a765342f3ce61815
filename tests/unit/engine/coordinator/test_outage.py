"""Outages: a model that cannot be reached delays its tasks, pauses them after a while, and ends none of them."""

import re
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.coordinator import outage
from roboco.engine.coordinator.outage import MAX_RETRY_AFTER, retry_delay
from roboco.engine.execution import turn
from roboco.engine.execution.attempt_outcome import TurnOutcome
from roboco.errors import ModelError, TransientError
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.model import Said
from tests.support.memory_ports.watch import PortCall, make_call
from tests.support.memory_ports.world import SWEEP_INTERVAL, World, given, team_of

DOWN = ModelError("connection", "model 'm' cannot be reached: refused", True)
WRONG = ModelError("auth", "model 'm' refuses the key in KEY (401); set a valid one", False)
LIMIT = 900.0


class Server:
    """A model server that is down while `error` is set; `tried` are the times at which it was asked."""

    def __init__(self, error: ModelError | None = DOWN) -> None:
        self.world: World
        self.error = error
        self.texts: tuple[str, ...] = ()
        self.tried: list[float] = []

    def __call__(self, request: Any) -> Said:
        self.tried.append(self.world.clock.now())
        return Said(self.texts, error=self.error) if self.error is not None else Said(("text",))


def begun(server: Server, tasks: int = 1, **profile: Any) -> World:
    """A world with so many tasks of a team with this server."""
    world = server.world = World(given(server))
    for number in range(tasks):
        submit(world, number, **profile)
    return world


def submit(world: World, number: int, **profile: Any) -> None:
    team = team_of(agents=[{"name": "one", "prompt": "hi"}], models={"m": {"model": "m"} | profile})
    world.submit(team, task_id=f"t{number}")


def go_on(world: World, seconds: float) -> None:
    """Let so many seconds pass."""
    until = world.clock.now() + seconds
    while world.clock.now() < until:
        world.drain()
        world.clock.move(SWEEP_INTERVAL)
        world.sweep()
    world.drain()


def told(world: World, task_id: str = "t0") -> list[str]:
    """The reasons in the events of the task's status."""
    return [event["reason"] for event in world.events(task_id) if event["type"] == "event_status"]


def test_an_outage_delays_a_turn_and_ends_nothing() -> None:
    server = Server()
    world = begun(server)
    go_on(world, 100)
    assert world.status("t0") is TaskStatus.RUNNING
    assert not any(isinstance(letter, TurnMessage) for letter in world.dispatcher.queue), "no worker holds it"
    pauses = [after - before for before, after in zip(server.tried, server.tried[1:], strict=False)]
    assert [round(pause) for pause in pauses] == pytest.approx([1, 2, 4, 8, 16, 32], abs=1.1)
    assert told(world)[-1] == "one waits: model 'm' cannot be reached: refused; next attempt in 60 s"
    assert world.server.held.tasks["t0"].reason == told(world)[-1]
    server.error = None
    go_on(world, 100)
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert len(world.history("t0")) == 2, "the history shows no failure"
    assert world.server.held.paused_until == {}, "other turns are not held back"


def test_after_the_limit_the_task_is_paused_and_goes_on_when_it_is_resumed() -> None:
    server = Server()
    world = begun(server)
    go_on(world, LIMIT + 70)
    assert world.summary("t0").status is TaskStatus.PAUSED
    assert re.fullmatch(
        r"one waits: model 'm' cannot be reached: refused; this has lasted 9\d\d s\. The task continues when it is "
        "resumed, or when the model answers another task",
        world.summary("t0").reason,
    )
    tried = len(server.tried)
    go_on(world, 2 * 3600)
    assert len(server.tried) == tried, "a paused task asks no more"
    world.resume("mine", task_id="t0")
    go_on(world, 10)
    assert world.status("t0") is TaskStatus.RUNNING, "it waits for 900 s again"
    assert len(server.tried) > tried
    server.error = None
    go_on(world, 70)
    assert world.summary("t0").status is TaskStatus.COMPLETED


def test_a_profile_may_wait_less_and_not_longer() -> None:
    worlds = [begun(Server(), outage_timeout=limit) for limit in (30, 10_000)]
    go_on(worlds[0], 70)
    assert worlds[0].summary("t0").status is TaskStatus.PAUSED
    go_on(worlds[1], LIMIT + 70)
    assert worlds[1].summary("t0").status is TaskStatus.PAUSED


@pytest.mark.parametrize("lost", [False, True])
def test_paused_tasks_go_on_when_the_model_answers_another_one(lost: bool) -> None:
    server = Server()
    world = begun(server, 3, outage_timeout=30)
    go_on(world, 100)
    world.pause("by-a-person", task_id="t1")
    world.drain()
    assert [world.status(f"t{number}") for number in range(3)] == [TaskStatus.PAUSED] * 3
    server.error = None
    if lost:  # the sweeper, which looks at each of them again, notes once more that it awaits an answer
        world.server.wipe()
        go_on(world, 30)
    submit(world, 3, outage_timeout=30)
    go_on(world, 30)
    assert [world.summary(f"t{number}").status for number in (0, 2, 3)] == [TaskStatus.COMPLETED] * 3
    assert world.status("t1") is TaskStatus.PAUSED
    assert world.server.held.tasks["t1"].reason == "paused by the user"
    assert not any(world.server.held.awaiting.values())


def test_another_model_s_answer_resumes_nothing() -> None:
    server = Server()
    world = begun(server, outage_timeout=30)
    go_on(world, 100)
    server.error = None
    world.submit(
        team_of(agents=[{"name": "one", "prompt": "hi"}], models={"m": {"model": "another"}}), task_id="another"
    )
    go_on(world, 30)
    assert world.summary("another").status is TaskStatus.COMPLETED
    assert world.status("t0") is TaskStatus.PAUSED


@pytest.mark.parametrize("act", [World.stop, World.interrupt])
def test_who_acts_during_an_outage_is_heard(act: Any) -> None:
    server = Server()
    world = begun(server)
    go_on(world, 40)
    act(world, **({"text": "now"} if act is World.interrupt else {}), task_id="t0")
    world.drain()
    server.error = None
    go_on(world, 5)
    expected = TaskStatus.CANCELLED if act is World.stop else TaskStatus.COMPLETED
    assert world.summary("t0").status is expected


def test_another_server_that_does_not_answer_delays_a_turn_and_is_named() -> None:
    server = Server(None)
    world = begun(server)

    def watch(name: str, call: PortCall) -> Any:
        if name == "rates.reserve":
            raise TransientError("the workspace does not answer: timed out")
        return call()

    world.watch = watch
    go_on(world, 40)
    assert server.tried == []
    assert told(world)[-1] == "one waits: the workspace does not answer: timed out; next attempt in 32 s"
    world.watch = make_call
    go_on(world, 70)
    assert world.summary("t0").status is TaskStatus.COMPLETED


def test_text_that_was_published_before_a_server_failed_is_void() -> None:
    server = Server(None)
    world = begun(server)
    world.given.model.script = lambda request: Said(("one ", "two"))
    chunks = 0

    def watch(name: str, call: PortCall) -> Any:
        nonlocal chunks
        if name == "turns.emit":
            chunks += 1
            if chunks == 2:
                raise TransientError("no answer")
        return call()

    world.watch = watch
    go_on(world, 5)
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert [step.text for step in world.history("t0")] == ["go", "one two"]
    [restart] = [event for event in world.events("t0") if event["type"] == "event_turn_restart"]
    assert restart["reason"] == "no answer"


def test_a_hold_that_was_ended_before_the_task_was_paused_is_followed_by_another_try() -> None:
    server = Server()
    world = begun(server, outage_timeout=30)
    resumed: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        answer = call()
        if name == "rates.add_waiting_task" and not resumed:
            resumed.append("t0")
            outage.resume_task(world.process(), "t0")
        return answer

    world.watch = watch
    go_on(world, 35)
    assert resumed
    tried = len(server.tried)
    go_on(world, 200)
    assert world.status("t0") is TaskStatus.PAUSED
    assert len(server.tried) == tried + 1


def test_a_step_that_was_stored_before_a_server_failed_stands() -> None:
    server = Server(None)
    world = begun(server)
    failed: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        if name.startswith("task_store.commit") and not failed:
            failed.append(name)
            raise TransientError("no answer")
        return call()

    world.watch = watch
    go_on(world, 5)
    assert failed
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert len(server.tried) == 1
    assert "event_turn_restart" not in [event["type"] for event in world.events("t0")]


@pytest.mark.parametrize(
    "error", [ValueError("bad \udc80 name https://me:pass@x"), TransientError("bad \udc80 name https://me:pass@x")]
)
def test_what_an_exception_says_is_made_fit_to_be_told(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn._log, "disabled", True)  # pytest's own report of the log takes Unicode only
    world = begun(Server(None))

    def watch(name: str, call: PortCall) -> Any:
        if name == "rates.reserve":
            raise error
        return call()

    world.watch = watch
    go_on(world, 5)
    assert "bad \ufffd name https://***@x" in (world.summary("t0").reason or told(world)[-1])


def test_delays_grow_up_to_a_minute_and_obey_the_server() -> None:
    never, now, later = (ModelError("status", "503", True, after) for after in (None, 0.0, 30.0))
    assert [retry_delay(never, refusals) for refusals in (0, 1, 5, 6, 100_000)] == [1, 2, 32, 60, 60]
    assert retry_delay(now, 3) == 8, "a server that says 'at once' is not asked in a loop"
    assert retry_delay(later, 0) == 30
    assert retry_delay(ModelError("status", "503", True, 1e9), 0) == MAX_RETRY_AFTER


def test_an_error_that_cannot_succeed_ends_the_task() -> None:
    world = begun(Server(WRONG))
    go_on(world, 5)
    assert world.summary("t0").status is TaskStatus.FAILED
    assert "refuses the key" in world.summary("t0").reason


def test_a_rate_limit_that_never_ends_pauses_the_task() -> None:
    world = begun(Server(ModelError("rate_limit", "model 'm' is at its rate limit (429)", True)))
    go_on(world, LIMIT + 70)
    assert world.summary("t0").status is TaskStatus.PAUSED
    assert "rate limit" in world.summary("t0").reason


def test_a_committed_turn_is_committed_although_its_tokens_cannot_be_recorded() -> None:
    server = Server(None)
    world = begun(server, tokens_per_minute=1000)

    def watch(name: str, call: PortCall) -> Any:
        if name == "rates.record_usage":
            raise TransientError("no answer")
        return call()

    world.watch = watch
    world.deliver(world.dispatcher.queue.popleft())
    [announced] = world.dispatcher.queue
    assert isinstance(announced, TurnMessage)
    assert turn.run_turn(world.engine, announced.assignment) is TurnOutcome.COMMITTED
    go_on(world, 5)
    assert world.summary("t0").status is TaskStatus.COMPLETED
    assert len(server.tried) == 1
