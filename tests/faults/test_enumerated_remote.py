"""A turn of a remote agent with a fault at every port call: one remote task, which does not outlive its turn unnoticed.

The remote agent is in memory. It knows no message by its id, so each message that is sent begins a task.
"""

from typing import Any

import pytest

from roboco.domain.history.step import REMOTE_TASK
from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from tests.faults.enumerated import INJECTIONS, FaultedCall
from tests.support.memory_ports.journeys import assert_whole, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.remote_agent import WORDS, ModelWithRemote
from tests.support.memory_ports.toolbox import MemoryToolbox
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import POLICY, Given, World, team_of

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

    def run(self, kind: str = "", at: int = 0) -> None:
        """Run to the end, with a fault at a port call, counted from 1."""
        self._fault = (kind, at)
        self.world.submit(TEAM)
        self.world.settle()

    def _watch(self, name: str, call: PortCall) -> Any:
        self.calls.append(name)
        if self._stops and name == READ and self.calls.count(READ) == 2:
            self.world.stop()
        kind, at = self._fault
        if len(self.calls) != at:
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


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("kind", sorted(INJECTIONS))
def test_a_fault_at_any_port_call_sends_no_message_twice(kind: str, stops: bool) -> None:
    plain = RemoteRun(stops)
    plain.run()
    plain.check()
    assert list(plain.agent.states.values()) == ["CANCELED" if stops else "COMPLETED"]
    failures = []
    for at in range(1, len(plain.calls) + 1):
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
"""The arrows of `remote_turn.py`: the call of the worker at which it dies, and the code of the step that follows."""


@pytest.mark.parametrize(("call", "nth", "kind", "code"), ARROWS)
def test_a_worker_that_dies_at_an_arrow(call: str, nth: int, kind: str, code: str) -> None:
    plain = RemoteRun(stops=False)
    plain.run()
    claimed = plain.calls.index("leases.claim_turn")
    places = [at for at, name in enumerate(plain.calls, 1) if at > claimed and name == call]
    ran = RemoteRun(stops=False)
    ran.run(kind, places[nth - 1])
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
    plain = RemoteRun(stops=True)
    plain.run()
    claimed = plain.calls.index("leases.claim_turn")
    places = [at for at, name in enumerate(plain.calls, 1) if at > claimed and name == call]
    ran = RemoteRun(stops=True)
    ran.run(kind, places[nth - 1])
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
