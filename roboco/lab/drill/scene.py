"""Scene: a running task as a fault sees it: when to strike, and a note of whether it struck."""

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from roboco.client.task import Task
from roboco.lab.drill.executions import ToolOrder
from roboco.lab.drill.stack import DrillStack
from roboco.lab.servers.model_server import RequestRecord
from roboco.redis.client import connect
from roboco.redis.scripts import Scripts

Strike = Generator[None, None, None]
"""The work of a fault: a generator that the main thread resumes again and again until it ends."""

INTERRUPTION: Final = "DRILL-4711: please mention the lighthouse."
"""The message of the user with which a drill interrupts a turn."""


@dataclass(frozen=True)
class Baseline:
    """The facts of a run without a fault, by which faults choose whether they apply, and where they strike."""

    irreversible: frozenset[str] = frozenset()
    """The tools of which no call may run twice."""
    without_store: str = ""
    """Why the store is a folder, or ""."""
    real_model: bool = False
    tools: tuple[str, ...] = ()
    """The stand-ins that the task executed."""
    calls: int = 0
    """Tool calls that tools workers ran."""
    status: str = ""

    @property
    def target(self) -> str:
        """The tool that faults of tools concern: an irreversible one, if the team calls one."""
        return next((tool for tool in self.tools if tool in self.irreversible), self.tools[0])


@dataclass
class Scene:
    """The stack and the tasks of a run. A fault calls `strikes` in the moment when it strikes."""

    stack: DrillStack
    baseline: Baseline
    name: str
    """The beginning of the ids of its tasks."""
    first_request: int
    """The number of model requests before the run."""
    tasks: list[Task] = field(default_factory=list)
    settled: bool = False
    """True if the task has ended, or waits, and nothing of the fault is left to wait for."""
    hit: str = ""
    """The process, server or call that the fault struck, or ""."""
    steps_before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids of the steps that were committed when the fault struck, by task."""
    redis_lost: bool = False
    interrupted: RequestRecord | None = None
    """The model request that was open when the drill interrupted its turn."""
    interruption_sent_at: float = 0.0
    notes: list[str] = field(default_factory=list)
    """Observations of the fault itself, such as the end of a terminated worker."""

    def wait(self, condition: Callable[[], object]) -> Generator[None, None, bool]:
        """Wait for the condition. Return False if the task settles before."""
        while not condition():
            if self.settled:
                return False
            yield
        return True

    def wait_settled(self) -> Strike:
        """Wait until the task settles."""
        yield from self.wait(lambda: False)

    def reaches(self, condition: Callable[[], bool]) -> Generator[None, None, bool]:
        """Wait for the moment. Return True if a task is open then: only then can a fault hit it."""
        reached = yield from self.wait(condition)
        return reached and not self.settled and any(not task.status.ended for task in self.tasks)

    def pause(self, seconds: float, until: Callable[[], bool] = lambda: False) -> Strike:
        """Wait for some time, or for a condition within it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            yield

    def strikes(self, what: str) -> None:
        """Note that the fault strikes now, and the steps that must survive it."""
        self.hit = what
        self.steps_before = {task.task_id: tuple(step.step_id for step in task.history()) for task in self.tasks}

    def requests(self) -> list[RequestRecord]:
        """Return the model requests of this run."""
        return self.stack.model.since(self.first_request)


@dataclass(frozen=True)
class Held:
    """A worker that is held at a moment. `drop` loses the request with which it is held, `release` passes it on."""

    reached: Callable[[], bool]
    release: Callable[[], None]
    drop: Callable[[], None]
    passed: Callable[[], bool]


@dataclass(frozen=True)
class Moment:
    """A moment of a pool's worker: its `nth` request of a kind, held before it is sent, or before it is answered.

    Without a pattern it is the moment after a tool had its effect, and before its result is sent.
    """

    text: str
    pool: str
    pattern: str = ""
    kind: Literal["script", "store"] = "script"
    nth: int = 1
    answered: bool = False

    @contextmanager
    def held(self, scene: Scene) -> Iterator[Held]:
        """Hold the worker at this moment inside the block, and let it go after that."""
        if not self.pattern:
            with ordered(scene, "wait") as taken:
                release = scene.stack.executions.release
                yield Held(taken, release, release, scene.stack.executions.is_released)
            return
        store = scene.stack.store
        gate = store if self.kind == "store" and store is not None else scene.stack.gates[self.pool]
        request = gate.hold(self._bytes(scene), self.nth, self.answered)
        try:
            yield Held(request.reached.is_set, request.release, request.drop, request.passed.is_set)
        finally:
            request.release()
            gate.held.remove(request)

    def _bytes(self, scene: Scene) -> bytes:
        if self.kind == "store":
            return self.pattern.encode()
        with connect(scene.stack.valkey.url) as client:
            script = Scripts(client).hash_of(self.pattern)
        return rf"{script}(?s:.){{0,200}}\{{{re.escape(scene.name)}".encode()


@contextmanager
def ordered(scene: Scene, order: ToolOrder) -> Iterator[Callable[[], bool]]:
    """Give the target tool this order inside the block. Yield a function that tests whether an execution took it."""
    executions = scene.stack.executions
    executions.order(scene.baseline.target, order)
    try:
        yield executions.was_taken
    finally:
        executions.release()
        executions.withdraw()
