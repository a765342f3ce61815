"""Scene: a running task as a fault sees it: when to strike, and a note of whether it struck."""

import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from roboco.adapters.redis.client import connect
from roboco.adapters.redis.scripts import Scripts
from roboco.lab.drill.stack import DrillStack
from roboco.lab.drill.watched_task import WatchedTask
from roboco.lab.servers.gate import Gate, HeldRequest
from roboco.lab.servers.model_server import RequestRecord

Strike = Generator[None, None, None]
"""The work of a fault: a generator that the main thread resumes again and again until it ends."""

INTERRUPTION: Final = "DRILL-4711: please mention the lighthouse."
"""The message of the user with which a drill interrupts a turn."""


@dataclass(frozen=True)
class Baseline:
    """What the team does without a fault: faults choose by it whether they apply, and where they strike."""

    tools: tuple[str, ...] = ()
    """The stand-ins that the task executed."""
    irreversible: frozenset[str] = frozenset()
    calls: int = 0
    """Tool calls that tools workers ran."""
    turns: int = 0
    seconds: float = 0.0
    status: str = ""


@dataclass
class Scene:
    """The stack and the tasks of a run. A fault calls `strikes` in the moment when it strikes."""

    stack: DrillStack
    baseline: Baseline
    rng: Random
    name: str
    """The beginning of the ids of its tasks."""
    tasks: list[WatchedTask]
    first_request: int = 0
    """The number of model requests before the run."""
    settled: bool = False
    """True if the task has ended, or waits, and nothing of the fault is left to wait for."""
    hit_at: float | None = None
    hit: str = ""
    """What struck, or "" if nothing did."""
    steps_before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids of the steps that were committed when the fault struck, by task."""
    redis_lost: bool = False
    interrupted: RequestRecord | None = None
    """The model request that was open when the drill interrupted its turn."""
    interruption_sent_at: float = 0.0
    notes: list[str] = field(default_factory=list)
    """What the fault itself has seen, such as the end of a terminated worker."""

    def wait(self, condition: Callable[[], object]) -> Generator[None, None, bool]:
        """Wait for the condition. Return False if the task settles before."""
        while not condition():
            if self.settled:
                return False
            yield
        return True

    def pause(self, seconds: float) -> Generator[None, None, None]:
        """Wait for some time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            yield

    def is_open(self) -> bool:
        """Return True if a task has not ended: only then can a fault hit it."""
        return not self.settled and any(not task.status.ended for task in self.tasks)

    def strikes(self, what: str, at: float | None = None) -> None:
        """Note that the fault strikes now, and the steps that must survive it."""
        self.hit = what
        self.hit_at = at or time.monotonic()
        self.steps_before = {task.task_id: tuple(step.step_id for step in task.history()) for task in self.tasks}

    def requests(self) -> list[RequestRecord]:
        """Return the model requests of this run."""
        return self.stack.model.since(self.first_request)


MomentKind = Literal["script", "message", "store"]


@dataclass(frozen=True)
class Moment:
    """A moment of a pool's worker: its `nth` request of a kind, held before it is sent, or before it is answered."""

    text: str
    pool: str
    pattern: str
    kind: MomentKind = "script"
    nth: int = 1
    answered: bool = False

    @contextmanager
    def held(self, scene: Scene) -> Generator[HeldRequest, None, None]:
        """Hold the worker at this moment inside the block, and let it go after that."""
        gate = self._gate(scene)
        held = gate.hold(self._bytes(scene), self.nth, self.answered)
        try:
            yield held
        finally:
            held.release()
            gate.held.remove(held)

    def _gate(self, scene: Scene) -> Gate:
        store = scene.stack.store
        return scene.stack.gates[self.pool] if self.kind != "store" or store is None else store

    def _bytes(self, scene: Scene) -> bytes:
        match self.kind:
            case "script":
                with connect(scene.stack.valkey.url) as client:
                    script = Scripts(client).hash_of(self.pattern)
                return rf"{script}(?s:.){{0,200}}\{{{re.escape(scene.name)}".encode()
            case "message":
                return rf'"task": ?"{self.pattern}"'.encode()
            case "store":
                return self.pattern.encode()
