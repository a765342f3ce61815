"""Workers killed, stopped and ended at named moments, which are seen from outside: at a gate before Redis and S3."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import redis

from roboco import Task
from roboco.adapters.local.process import Server
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.history.step import verify_chain
from tests.support.journeys import GRAPH, PARALLEL, StackJourney, answer, shape
from tests.support.servers.gate import Gate, HeldRequest
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until
from tests.support.transcript import Transcript

OUTCOME_TIMEOUT = 30.0
"""How long a moment or a task's end is waited for."""
SHUTDOWN_TIMEOUT = 75.0
"""How long a worker may take to end. A child of billiard's pool waits up to 30 s, in _ensure_messages_consumed,
for its parent to count a result, which it may have missed as it began to shut down."""


@cache
def _script(name: str) -> bytes:
    """What a call of this script holds on the wire."""
    with redis.Redis() as client:
        return str(Scripts(client).hash_of(name)).encode()


@dataclass(frozen=True)
class Moment:
    """Where a worker is: at the `nth` request of the kind, before it or, with `answered`, before its answer.

    `script` is a script in Redis, `message` the Celery task of a message that is sent, `s3` a request to S3. With
    none of them it is when the file of the tests' tools has so many lines more.
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
        """Whether the worker is stopped at a gate."""
        return bool(self.script or self.message or self.s3)

    def hold(self, gate: Gate) -> HeldRequest:
        """Have the gate stop the worker there."""
        if self.script:
            return gate.hold(_script(self.script), self.nth, self.answered)
        pattern = rf'"task": ?"{self.message}"' if self.message else self.s3
        return gate.hold(pattern.encode(), self.nth, self.answered)


AGENTS = (
    Moment("claimed", GRAPH, script="claim", answered=True),
    Moment("first token out", GRAPH, script="emit", answered=True),
    Moment("in the middle of a turn", GRAPH, script="emit", nth=4),
    Moment("step appended, not committed", GRAPH, script="commit"),
    Moment("committed and chosen, next turn not handed out", GRAPH, message="roboco.turn"),
    Moment("calls chosen, one not handed out", PARALLEL, message="roboco.tool", nth=2),
    Moment("last step committed, not handed on", GRAPH, message="roboco.advance"),
)
TOOLS = (
    Moment("claimed", PARALLEL, script="claim_call", answered=True),
    Moment("result not recorded", PARALLEL, script="record_outcome"),
    Moment("last result recorded, not handed on", PARALLEL, message="roboco.advance"),
)
RUNNING = Moment("two tools running", PARALLEL, nth=2)
COORDINATOR = (
    Moment("turn chosen, not handed out", PARALLEL, message="roboco.turn"),
    Moment("results appended, not committed", PARALLEL, script="commit"),
    Moment("results committed, not handed on", PARALLEL, script="commit", answered=True),
)
COMPACTION = (
    Moment("fold written, nothing removed", PARALLEL, s3=r"DELETE /[^ ]*/history/"),
    Moment("fold half removed", PARALLEL, s3=r"DELETE /[^ ]*/history/", nth=4),
)


def answer_slowly(request: Request) -> Reply:
    """The answer, slowly enough that a signal falls in between."""
    reply = answer(request)
    return Reply(text=reply.text, tool_calls=reply.tool_calls, interval=0.03)


class Victim:
    """The stack's only worker of a pool, behind gates; what becomes of it is up to a test."""

    def __init__(self, stack: Stack, pool: str) -> None:
        self._stack = stack
        self._pool = pool
        self._exits = ExitStack()
        self._zombies: list[Server] = []
        self.redis = self._exits.enter_context(Gate(stack.valkey.port))
        self.s3 = self._exits.enter_context(Gate(stack.s3_port)) if stack.s3_port else None
        self.start()

    def close(self) -> None:
        """End all that was started."""
        for server in (*self._zombies, self._stack.workers.pop(self._pool)):
            _signal(server, signal.SIGKILL)
            server.process.wait()
        self._exits.close()

    def gate(self, moment: Moment) -> Gate:
        """The gate at which the moment is seen."""
        gate = self.s3 if moment.s3 else self.redis
        assert gate is not None
        return gate

    def start(self) -> None:
        """Start a worker; an earlier one is gone, or stands still."""
        changes = {"ROBOCO_REDIS_URL": f"redis://127.0.0.1:{self.redis.port}/0"}
        if self.s3 is not None:
            changes["ROBOCO_S3_ENDPOINT_URL"] = f"http://127.0.0.1:{self.s3.port}"
        self._stack.start(self._pool, **changes)
        self._stack.wait_ready(self._pool)

    def kill_zombies(self) -> None:
        """End those that went on, so that nothing comes of them during another case."""
        for zombie in self._zombies:
            _signal(zombie, signal.SIGKILL)
            zombie.process.wait()
        self._zombies.clear()

    def kill(self, held: HeldRequest | None) -> None:
        """SIGKILL: what the worker was about to send never arrives."""
        _signal(self._worker, signal.SIGKILL)
        self._worker.process.wait()
        if held is not None:
            held.drop()
        self.start()

    def terminate(self, held: HeldRequest | None) -> None:
        """SIGTERM: the worker does what it has begun, and ends well."""
        worker = self._worker
        worker.process.terminate()
        if held is not None:
            held.release()
        until(lambda: not worker.alive(), SHUTDOWN_TIMEOUT, lambda: f"it ends: {self._stack.log(self._pool)[-3000:]}")
        assert worker.process.returncode == 0
        self.start()

    @contextmanager
    def suspended(self, held: HeldRequest | None) -> Iterator[None]:
        """SIGSTOP for the block, in which another worker has taken over; then the first one goes on as a zombie."""
        zombie = self._worker
        _suspend(zombie)
        self._zombies.append(zombie)
        time.sleep(self._stack.settings.lease_seconds)  # the length of the stop is what the case is about
        self.start()
        yield
        _signal(zombie, signal.SIGCONT)
        if held is not None:
            held.release()
            assert held.passed.wait(OUTCOME_TIMEOUT)

    @property
    def _worker(self) -> Server:
        return self._stack.workers[self._pool]


def _signal(server: Server, sign: signal.Signals) -> None:
    """To the worker and all its processes: it leads a session of its own."""
    try:
        os.killpg(server.pid, sign)
    except ProcessLookupError:
        server.process.wait()


def _suspend(server: Server) -> None:
    """SIGSTOP, though not in the middle of a write to a history in a folder.

    That would hold the task up until it goes on: `test_a_lock_that_is_not_given_back_holds_up_one_task_alone`.
    """
    until = time.monotonic() + OUTCOME_TIMEOUT
    _signal(server, signal.SIGSTOP)
    while _holds_file_lock(server):
        assert time.monotonic() < until, "it is always in the middle of a write"
        _signal(server, signal.SIGCONT)
        time.sleep(0.005)
        _signal(server, signal.SIGSTOP)


def _holds_file_lock(server: Server) -> bool:
    """Whether a process of the worker's, all of which are stopped, has the lock of a file."""
    while any(state != "T" for state, _ in _threads(server.pid)):
        time.sleep(0.001)
    owners = {line.split()[4] for line in Path("/proc/locks").read_text().splitlines() if " -> " not in line}
    return any(pid in owners for _, pid in _threads(server.pid))


def _threads(session: int) -> Iterator[tuple[str, str]]:
    """The state of each thread of a session, and the id of its process."""
    for thread in Path("/proc").glob("[0-9]*/task/*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, belongs = (thread / "stat").read_text().rpartition(")")[2].split()[:4]
            if belongs == str(session):
                yield state, thread.parent.parent.name


class Scenario:
    """One run, in which something happens to the victim at a moment."""

    def __init__(self, stack: Stack, victim: Victim, moment: Moment) -> None:
        self._stack = stack
        self._victim = victim
        self._journey = moment.journey
        stack.model.script(answer_slowly)
        self._earlier_requests = len(stack.model.requests)
        self._held = moment.hold(victim.gate(moment)) if moment.needs_gate else None
        before = stack.count_tool_lines()
        self.task: Task = stack.orchestrator.run(self._journey.team, self._journey.prompt)
        if self._held is None:
            until(lambda: stack.count_tool_lines() >= before + moment.nth, OUTCOME_TIMEOUT, moment.name)
        else:
            assert self._held.reached.wait(OUTCOME_TIMEOUT), f"it never came to: {moment.name}"

    def kill(self) -> None:
        """SIGKILL at the moment, and what must come of it."""
        self._victim.kill(self._held)
        self.check()

    def terminate(self) -> None:
        """SIGTERM at the moment, and what must come of it: nothing is made twice."""
        self._victim.terminate(self._held)
        transcript = self.check()
        assert "event_turn_restart" not in transcript.types
        turns = sum(1 for step in self.task.history() if step.by_agent)
        assert len(self._stack.model.requests) - self._earlier_requests == turns, "a turn was made twice"

    def suspend_and_continue(self) -> None:
        """SIGSTOP at the moment for longer than a lease, then SIGCONT: the zombie changes nothing."""
        with self._victim.suspended(self._held):
            self.check()
        self.check()
        self._victim.kill_zombies()
        self.check()

    def check(self) -> Transcript:
        """The history is as ever, and so is what a follower from the beginning is shown."""
        assert self._journey.run_to_end(self.task, OUTCOME_TIMEOUT) == self._journey.final_status
        transcript = Transcript()
        for item in self.task.stream():
            transcript.take(item)
        history = self.task.history()
        assert shape(history) == self._journey.expected
        assert verify_chain(self._stack.orchestrator._engine.histories.lines(self.task.task_id)) == len(history)
        assert transcript.finals == list(range(len(history)))
        assert transcript.texts == {step.step_id: step.text for step in history if step.by_agent and step.text}
        assert self._stack.model.violations == []
        return transcript


DISRUPTIONS: dict[str, Callable[[Scenario], None]] = {
    "SIGKILL": Scenario.kill,
    "SIGSTOP, SIGCONT": Scenario.suspend_and_continue,
    "SIGTERM": Scenario.terminate,
}
