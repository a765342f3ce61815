"""Workers killed, suspended and terminated at named moments, which a gate before Redis or S3 observes."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from roboco import Task
from roboco.domain.history.step import FUNCTION
from roboco.lab.servers.gate import Gate, HeldRequest
from roboco.lab.transcript import Transcript
from roboco.local.process import Server
from roboco.local.seaweed import S3Server
from roboco.redis.scripts import Scripts
from tests.support.journeys import FORMED, FUNCTIONS, GRAPH, PARALLEL, StackJourney, answer_slowly, follow
from tests.support.stack import POOLS, Stack, s3_environment, until

OUTCOME_TIMEOUT = 120.0
"""Seconds until a moment is reached, or a task ends."""
SHUTDOWN_TIMEOUT = 75.0
"""Seconds in which a worker ends. A child of billiard's pool waits up to 30 s, in _ensure_messages_consumed, until its
parent has counted a result, which the parent may miss during its shutdown."""


@cache
def _script(name: str) -> bytes:
    """Return the bytes by which a call of this script is recognised: its hash."""
    with redis.Redis() as client:
        return str(Scripts(client).hash_of(name)).encode()


@dataclass(frozen=True)
class Moment:
    """A moment of a worker: the `nth` request of a kind, before it is sent or, with `answered`, before its answer.

    `script` is a script in Redis, `message` the Celery task of a message, `s3` a request to S3. Without them, it is the
    moment when the tests' tools have written `nth` more lines.
    """

    name: str
    journey: StackJourney
    script: str = ""
    message: str = ""
    s3: str = ""
    nth: int = 1
    answered: bool = False

    @property
    def needs_gate(self) -> bool:
        """True if a gate stops the worker at this moment."""
        return bool(self.script or self.message or self.s3)

    def hold(self, gate: Gate) -> HeldRequest:
        """Let the gate stop the worker at this moment."""
        if self.script:
            return gate.hold(_script(self.script), self.nth, self.answered)
        pattern = rf'"task": ?"{self.message}"' if self.message else self.s3
        return gate.hold(pattern.encode(), self.nth, self.answered)


AGENTS = (
    Moment("in the middle of an answer in a form", FORMED, script="emit", nth=5),
    Moment("claimed", GRAPH, script="claim", answered=True),
    Moment("first token out", GRAPH, script="emit", answered=True),
    Moment("in the middle of a turn", GRAPH, script="emit", nth=4),
    Moment("step appended, not committed", GRAPH, script="commit"),
    Moment("committed, next turn not dispatched", GRAPH, message="roboco.turn"),
    Moment("calls recorded, one not dispatched", PARALLEL, message="roboco.tool", nth=2),
    Moment("last step committed, coordinator not notified", GRAPH, message="roboco.advance"),
)
TOOLS = (
    Moment("two tools running", PARALLEL, nth=2),
    Moment("claimed", PARALLEL, script="claim_call", answered=True),
    Moment("result not recorded", PARALLEL, script="record_outcome"),
    Moment("last result recorded, coordinator not notified", PARALLEL, message="roboco.advance"),
    Moment("function running", FUNCTIONS),
    Moment("answer of a function not recorded", FUNCTIONS, script="record_outcome"),
)
COORDINATOR = (
    Moment("turn recorded, not dispatched", PARALLEL, message="roboco.turn"),
    Moment("results appended, not committed", PARALLEL, script="commit"),
    Moment("results committed, next turn not recorded", PARALLEL, script="commit", answered=True),
    Moment("call of a function committed, not recorded", FUNCTIONS, script="commit", answered=True),
    Moment("answer of a function in the results, not committed", FUNCTIONS, script="commit", nth=3),
)
COMPACTION = (
    Moment("compacted, no segment removed", PARALLEL, s3=r"DELETE /[^ ]*/history/"),
    Moment("compacted, half of the segments removed", PARALLEL, s3=r"DELETE /[^ ]*/history/", nth=4),
)


class Victim:
    """The stack's only worker of a pool, behind gates, which a test kills, suspends or terminates."""

    def __init__(self, stack: Stack, pool: str) -> None:
        self.stack = stack
        self._pool = pool
        self._exits = ExitStack()
        self._zombies: list[Server] = []
        self.redis = self._exits.enter_context(Gate(stack.valkey.port))
        self.s3 = self._exits.enter_context(Gate(stack.s3_port)) if stack.s3_port else None
        self.start()

    def close(self) -> None:
        """Kill all workers of the victim, and close its gates."""
        for server in (*self._zombies, self.stack.workers.pop(self._pool)):
            _signal(server, signal.SIGKILL)
            server.process.wait()
        self._exits.close()

    def gate(self, moment: Moment) -> Gate:
        """Return the gate that observes the moment."""
        gate = self.s3 if moment.s3 else self.redis
        assert gate is not None
        return gate

    def start(self) -> None:
        """Start a worker. An earlier one has ended or is suspended."""
        changes = {"ROBOCO_REDIS_URL": f"redis://127.0.0.1:{self.redis.port}/0"}
        if self.s3 is not None:
            changes["ROBOCO_S3_ENDPOINT_URL"] = f"http://127.0.0.1:{self.s3.port}"
        self.stack.start(self._pool, **changes)
        self.stack.wait_ready(self._pool)

    def kill_zombies(self) -> None:
        """Kill the continued workers, so that they do not affect another case."""
        for zombie in self._zombies:
            _signal(zombie, signal.SIGKILL)
            zombie.process.wait()
        self._zombies.clear()

    def kill(self, held: HeldRequest | None) -> None:
        """Kill the worker with SIGKILL, drop its held request, and start another worker."""
        _signal(self._worker, signal.SIGKILL)
        self._worker.process.wait()
        if held is not None:
            held.drop()
        self.start()

    def terminate(self, held: HeldRequest | None) -> None:
        """Send SIGTERM. Assert that the worker finishes its work and ends with 0, and start another one."""
        worker = self._worker
        worker.process.terminate()
        if held is not None:
            held.release()
        until(
            lambda: not worker.alive(),
            SHUTDOWN_TIMEOUT,
            lambda: f"the worker ends: {self.stack.log(self._pool)[-3000:]}",
        )
        assert worker.process.returncode == 0
        self.start()

    @contextmanager
    def suspended(self, held: HeldRequest | None) -> Iterator[None]:
        """Suspend the worker during the block, in which another worker takes over. Then continue it as a zombie."""
        zombie = self._worker
        _suspend(zombie)
        self._zombies.append(zombie)
        time.sleep(self.stack.settings.lease_seconds)  # the suspension outlasts the lease
        self.start()
        yield
        _signal(zombie, signal.SIGCONT)
        if held is not None:
            held.release()
            assert held.passed.wait(OUTCOME_TIMEOUT)

    @property
    def _worker(self) -> Server:
        return self.stack.workers[self._pool]


def _signal(server: Server, sign: signal.Signals) -> None:
    """Send the signal to the worker and all its processes, whose group it leads."""
    try:
        os.killpg(server.pid, sign)
    except ProcessLookupError:
        server.process.wait()


STOPPED = ("T", "Z", "X")
"""The states of threads that do not run: suspended, or ended while the parent is suspended."""


def _suspend(server: Server) -> None:
    """Send SIGSTOP while the worker does not write to a history in a folder.

    A suspended writer keeps the lock of the history, and so blocks its task until it continues.
    """
    until = time.monotonic() + OUTCOME_TIMEOUT
    _signal(server, signal.SIGSTOP)
    while _holds_file_lock(server):
        assert time.monotonic() < until, "the worker never stops writing"
        _signal(server, signal.SIGCONT)
        time.sleep(0.005)
        _signal(server, signal.SIGSTOP)


def _holds_file_lock(server: Server) -> bool:
    """Return True if a process of the worker holds a file lock. All of them are stopped.

    Each open file names its locks. /proc/locks names those of all processes, and may miss one while others change.
    """
    until = time.monotonic() + OUTCOME_TIMEOUT
    while any(state not in STOPPED for state, _ in _threads(server.pid)):
        assert time.monotonic() < until, f"not all of {list(_threads(server.pid))} stop"
        time.sleep(0.001)
    return any(
        "\nlock:" in file.read_text()
        for process in {process for _, process in _threads(server.pid)}
        for file in Path("/proc", process, "fdinfo").iterdir()
    )


def _threads(session: int) -> Iterator[tuple[str, str]]:
    """Yield the state of each thread of a session, and the id of its process."""
    for thread in Path("/proc").glob("[0-9]*/task/*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, belongs = (thread / "stat").read_text().rpartition(")")[2].split()[:4]
            if belongs == str(session):
                yield state, thread.parent.parent.name


@contextmanager
def only_worker_of(pool: str, folder: Path, s3: S3Server | None = None) -> Iterator[Victim]:
    """Yield the only worker of the pool, in a deployment in the folder."""
    others = tuple(other for other in POOLS if other != pool)
    with s3_environment(s3), Stack(folder, pools=others, s3=s3) as stack:
        victim = Victim(stack, pool)
        try:
            yield victim
        finally:
            victim.close()


class Scenario:
    """A run in which the victim is disrupted at a moment."""

    def __init__(self, victim: Victim, moment: Moment) -> None:
        self._stack = stack = victim.stack
        self._victim = victim
        self._journey = moment.journey
        stack.model.script(answer_slowly)
        self._earlier_requests = len(stack.model.requests)
        self._held = moment.hold(victim.gate(moment)) if moment.needs_gate else None
        before = stack.count_tool_lines()
        self.task: Task = stack.orchestrator.run(self._journey.team, self._journey.prompt, **self._journey.options)
        if self._held is None:
            until(lambda: stack.count_tool_lines() >= before + moment.nth, OUTCOME_TIMEOUT, moment.name)
        else:
            assert self._held.reached.wait(OUTCOME_TIMEOUT), f"the run does not reach: {moment.name}"

    def kill(self) -> None:
        """Kill the worker at the moment, and check the outcome."""
        self._victim.kill(self._held)
        self.check()

    def terminate(self) -> None:
        """Terminate the worker at the moment, and check the outcome and that no turn is repeated."""
        self._victim.terminate(self._held)
        transcript = self.check()
        assert "event_turn_restart" not in transcript.types
        turns = sum(1 for step in self.task.history() if step.by_agent and FUNCTION not in step.metadata)
        assert len(self._stack.model.requests) - self._earlier_requests == turns, "a turn was repeated"

    def suspend_and_continue(self) -> None:
        """Suspend the worker for longer than a lease, continue it, and check that the zombie changes nothing."""
        with self._victim.suspended(self._held):
            self.check()
        self.check()
        self._victim.kill_zombies()
        self.check()

    def check(self) -> Transcript:
        """Assert the journey's history, and that a follower from the start receives all of it."""
        assert self._journey.run_to_end(self.task, OUTCOME_TIMEOUT) == self._journey.final_status
        transcript = follow(self.task)
        self._journey.check(self.task, transcript)
        assert self._stack.model.violations == []
        return transcript


DISRUPTIONS: dict[str, Callable[[Scenario], None]] = {
    "SIGKILL": Scenario.kill,
    "SIGSTOP, SIGCONT": Scenario.suspend_and_continue,
    "SIGTERM": Scenario.terminate,
}


def disrupted(moments: Sequence[Moment]) -> list[Any]:
    """Return each moment with each disruption. Of each disruption one moment runs with the slow tests."""
    return [
        pytest.param(
            moment,
            disruption,
            id=f"{moment.name}-{disruption}",
            marks=() if number == index else pytest.mark.nightly,
        )
        for number, moment in enumerate(moments)
        for index, disruption in enumerate(DISRUPTIONS)
    ]
