"""A turn of a remote agent with a fault at every port call: one remote task, which does not outlive its turn unnoticed.

The remote agent is in memory. It knows no message by its id, so each message that is sent begins a task.
"""

from itertools import pairwise, takewhile
from typing import Any

import pytest

from roboco.domain.history.step import REMOTE_TASK
from roboco.domain.status import TaskStatus
from roboco.engine.coordinate.remote_end import CHECK_DELAY
from roboco.errors import TransientError
from tests.faults.enumerated import INJECTIONS, FaultedCall, places
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import assert_whole, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.remote_agent import WORDS, ModelWithRemote
from tests.support.memory_ports.toolbox import MemoryToolbox
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import POLICY, TASK, Given, World, team_of
from tests.support.selection import in_parts

FAR = {"model": "far", "provider": "a2a", "base_url": "https://far.example/a2a"}
TEAM = team_of(agents=[member("far")], models={"far": FAR})
READ = "remote.read"


class RemoteRun:
    """A task whose only turn is a remote agent's. With `stops`, its user stops it in the middle of the text."""

    def __init__(self, stops: bool) -> None:
        self.calls: list[str] = []
        self.struck = ""
        """The name of the call with the fault."""
        self._stops = stops
        self._fault = ("", 0)
        model = ModelWithRemote(lambda _: says(""), self._watch)
        self.world = World(Given(model, MemoryToolbox({}), POLICY), self._watch)
        self.agent = model.agent

    def begin(self, kind: str = "", at: int = 0) -> None:
        """Submit the task, with a fault at a port call, counted from 1."""
        self._fault = (kind, at)
        self.world.submit(TEAM)

    def run(self, kind: str = "", at: int = 0) -> None:
        """Run to the end, with a fault at a port call, counted from 1."""
        self.begin(kind, at)
        self.world.settle()

    def until_turn(self) -> TurnMessage:
        """Deliver messages, and let time pass, until one for a turn is next. Return that one, undelivered."""
        for _ in range(100):
            while self.world.dispatcher.queue:
                message = self.world.dispatcher.queue.popleft()
                if isinstance(message, TurnMessage):
                    return message
                self.world.deliver(message)
            self.world.clock.move(1.0)
            self.world.sweep()
        raise AssertionError("no turn begins")

    def _watch(self, name: str, call: PortCall) -> Any:
        self.calls.append(name)
        place = len(self.calls)  # a stop makes further calls
        if self._stops and name == READ and self.calls.count(READ) == 2:
            self.world.stop()
        kind, at = self._fault
        if place != at:
            return call()
        self.struck = name
        once = name.startswith("remote.") and kind == "repeated"  # HTTP repeats no request
        return call() if once else INJECTIONS[kind](FaultedCall(self.world, name, call))

    @property
    def code(self) -> str:
        """The code of the error of the last step, or ""."""
        error = self.world.history()[-1].error
        return "" if error is None else error.code

    def named(self) -> list[Any]:
        """Return what the steps say about remote tasks."""
        return [step.metadata[REMOTE_TASK] for step in self.world.history() if REMOTE_TASK in step.metadata]

    def check(self) -> None:
        """Assert one remote task, which has ended unless a step says that it may run, and a whole history."""
        assert not [error for error in self.world.failures if not isinstance(error, TransientError)]
        assert_whole(self.world, "")
        assert len(self.agent.states) <= 1, "the message was sent twice"
        if "WORKING" in self.agent.states.values():
            assert [one["state"] for one in self.named()] in (["unknown"], ["running"]), "a remote task runs unnoticed"
        if self._stops and self.world.summary().status is TaskStatus.CANCELLED:
            assert self.code == "stopped"
        elif self.code == "":  # a late stop finds the task ended
            assert self.world.history()[-1].text == "".join(WORDS)
        else:
            assert self.code == "unknown_outcome"


def place_of(call: str, nth: int, stops: bool) -> int:
    """Return the place of the nth such call of the worker among all port calls of a run, counted from 1."""
    plain = RemoteRun(stops)
    plain.run()
    claimed = plain.calls.index("leases.claim_turn")
    return [at for at, name in enumerate(plain.calls, 1) if at > claimed and name == call][nth - 1]


@in_parts
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("kind", sorted(INJECTIONS))
def test_a_fault_at_any_port_call_sends_no_message_twice(kind: str, stops: bool, part: int) -> None:
    plain = RemoteRun(stops)
    plain.run()
    plain.check()
    assert list(plain.agent.states.values()) == ["CANCELED" if stops else "COMPLETED"]
    failures = []
    for at in takewhile(lambda at: at <= len(plain.calls), places(kind, part)):
        ran = RemoteRun(stops)
        try:
            ran.run(kind, at)
            ran.check()
        except AssertionError as error:
            failures.append(f"{kind}@{at} {ran.struck}: {error}".splitlines()[0])
    assert not failures, "\n".join(failures)
    assert len(plain.calls) > 40


ARROWS = (
    ("files.create", 1, "dies", ""),
    ("files.create", 1, "dies-after", "unknown_outcome"),
    ("remote.send", 1, "dies", "unknown_outcome"),
    ("remote.send", 1, "dies-after", "unknown_outcome"),
    ("files.put", 1, "dies", "unknown_outcome"),
    ("files.put", 1, "dies-after", ""),
    (READ, 2, "dies", ""),
    (READ, 4, "dies-after", ""),
    ("files.put", 2, "dies", ""),
    ("files.put", 2, "dies-after", ""),
    ("histories.append", 1, "dies", ""),
    ("histories.append", 1, "dies-after", ""),
    ("task_store.commit", 1, "dies", ""),
)
"""The arrows of `remote_task.py`: the call of the worker at which it dies, and the code of the step that follows."""


@pytest.mark.parametrize(("call", "nth", "kind", "code"), ARROWS)
def test_a_worker_that_dies_at_an_arrow(call: str, nth: int, kind: str, code: str) -> None:
    ran = RemoteRun(stops=False)
    ran.run(kind, place_of(call, nth, stops=False))
    ran.check()
    assert ran.code == code
    assert [one["state"] for one in ran.named()] == (["unknown"] if code else [])


STOPPED_ARROWS = (
    (READ, 2, "dies"),
    ("remote.cancel", 1, "dies"),
    ("remote.cancel", 1, "dies-after"),
    ("files.put", 2, "dies"),
    ("files.put", 2, "dies-after"),
    ("histories.append", 1, "dies"),
)


@pytest.mark.parametrize(("call", "nth", "kind"), STOPPED_ARROWS)
def test_a_stop_that_no_worker_hears_cancels_the_remote_task(call: str, nth: int, kind: str) -> None:
    ran = RemoteRun(stops=True)
    ran.run(kind, place_of(call, nth, stops=True))
    ran.check()
    assert list(ran.agent.states.values()) == ["CANCELED"]
    assert ran.named() == [{"id": "remote-0", "state": "canceled"}]
    assert ran.world.summary().status is TaskStatus.CANCELLED


def test_a_task_that_no_worker_cancels_is_named() -> None:
    ran = RemoteRun(stops=True)

    def refuse(task_id: str) -> str:
        raise TransientError("no answer")

    ran.agent.cancel = refuse  # type: ignore[method-assign]
    ran.run()
    ran.check()
    assert ran.named() == [{"id": "remote-0", "state": "running", "error": "no answer"}]
    assert ran.world.summary().status is TaskStatus.CANCELLED


def test_a_refused_cancellation_is_repeated_at_a_distance() -> None:
    ran, moments = RemoteRun(stops=True), list[float]()

    def refuse(task_id: str) -> str:
        moments.append(ran.world.clock.now())
        raise TransientError("no answer")

    ran.agent.cancel = refuse  # type: ignore[method-assign]
    ran.run("dies", place_of(READ, 2, stops=True))
    ran.check()
    assert len(moments) > 2
    assert min(later - one for one, later in pairwise(moments)) >= CHECK_DELAY
    assert ran.named() == [{"id": "remote-0", "state": "running", "error": "no answer"}]


@pytest.mark.parametrize("dies", [False, True])
def test_a_pause_before_the_turn_is_claimed_cancels_no_remote_task(dies: bool) -> None:
    ran = RemoteRun(stops=False)
    ran.begin("dies", place_of(READ, 2, stops=False) if dies else 0)
    order = ran.until_turn()
    if dies:
        ran.world.deliver(order)
        order = ran.until_turn()
    ran.world.pause()
    ran.world.deliver(order)
    ran.world.resume()
    ran.world.settle()
    ran.check()
    assert (list(ran.agent.states.values()), ran.code) == (["COMPLETED"], "")


def test_an_interruption_that_is_late_lets_the_next_remote_turn_answer() -> None:
    ran = RemoteRun(stops=False)
    ran.world.submit(TEAM, conversation=True)
    ran.world.settle()
    ran.world.interrupt("again", "i1")
    order = ran.until_turn()
    ran.world.engine.tasks.task_store.add_items(TASK, ["i1"], True, None)
    ran.world.deliver(order)
    ran.world.settle()
    assert list(ran.agent.states.values()) == ["COMPLETED"] * 2
    assert [step.error for step in ran.world.history()] == [None] * 4


def test_a_stop_of_a_worker_that_hangs_cancels_the_remote_task() -> None:
    ran = RemoteRun(stops=False)
    read, began = ran.agent.read, ran.world.clock.now()

    def hang(task_id: str, place: int) -> str:
        if place == 1:
            ran.world.stop()
            while not ran.world.status().ended:
                ran.world.clock.move(1.0)
                ran.world.heartbeat.beat()
                ran.world.sweep()
                ran.world.drain()
        return read(task_id, place)

    ran.agent.read = hang  # type: ignore[method-assign]
    ran.run()
    assert list(ran.agent.states.values()) == ["CANCELED"]
    assert ran.named() == [{"id": "remote-0", "state": "canceled"}]
    assert ran.world.clock.now() - began < POLICY.lease
