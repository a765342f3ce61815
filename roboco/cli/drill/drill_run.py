"""DrillRun: a task of the user's team under one fault, from its submission until it rests and all is healthy again."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, Final

from roboco.cli.drill.drill_stack import DrillStack
from roboco.cli.drill.faults import Fault
from roboco.cli.drill.promises import ObservedRun, ObservedTask
from roboco.cli.drill.run_record import RunRecord
from roboco.cli.drill.scene import INTERRUPTION, Baseline, Scene
from roboco.cli.drill.script.replies import agent_of
from roboco.cli.drill.transcript import Transcript
from roboco.cli.drill.watched_task import TaskClient, WatchedTask
from roboco.domain.history.step import TOOL_EXECUTOR
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory, RobocoError, TransientError, UsageError

SETTLE_TIMEOUT: Final = 120.0
"""Seconds that a task has to rest after a fault."""
CLOSE_TIMEOUT: Final = 30.0
USER_MESSAGES: Final = ("Please go on.",)
"""Answers of the drill to a task that waits for its user, each used once."""
POLL_INTERVAL: Final = 0.03


@dataclass(frozen=True)
class DrillPlan:
    """State that all runs of a drill share."""

    stack: DrillStack
    client: TaskClient
    team: Team
    prompt: str
    context: dict[str, str]
    seed: int
    wrong_decisions: Callable[[str], list[str]]
    """Returns the positions of a task at which a replay of its decisions differs."""
    tasks: int = 1
    on_wait: Callable[[], None] = lambda: None
    """Called again and again while a run waits."""


class LiveReader:
    """Follows a task in a thread, as a browser would, until the task ends."""

    def __init__(self, task: WatchedTask) -> None:
        self.transcript = Transcript()
        self.times: list[float] = []
        self.error = ""
        self._task = task
        self._thread = threading.Thread(target=self._read, name="drill-reader", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until it has received the end of the task; note an error if it does not in time."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.error = f"it had not received the end of the task {seconds:g} s after it"

    def _read(self) -> None:
        try:
            for item in self._task.stream():
                self.transcript.take(item)
                self.times.append(time.monotonic())
        except Exception as error:  # the report names it
            self.error = repr(error)


@dataclass
class _Driven:
    """A task of a run, and the drill's part as its user."""

    task: WatchedTask
    reader: LiveReader
    sent: int = 0
    acted_on: tuple[TaskStatus, int] | None = None
    """The status and the number of steps at the last act of the user: until they change, the task is not at rest."""
    status: TaskStatus | None = None


class DrillRun:
    """One run. Main thread only, because it starts processes."""

    def __init__(self, plan: DrillPlan, fault: Fault | None, baseline: Baseline) -> None:
        self._plan = plan
        self._fault = fault
        self._baseline = baseline
        self._stack = plan.stack
        self._violations = len(self._stack.model.violations)
        self._executions = len(self._stack.executions.read())
        self._known_ids = set(plan.client.task_ids())
        self._letters = self._count_letters()

    def execute(self) -> RunRecord:
        """Run the task under the fault, and return the record. The stack is healthy after that."""
        began, first = time.monotonic(), self._stack.model.count
        name = "baseline" if self._fault is None else self._fault.name
        rng = Random(f"{self._plan.seed}/{name}")  # noqa: S311  # no secret
        count = 1 if self._fault is None or self._fault.group == "user" else self._plan.tasks
        driven: list[_Driven] = []
        scene = Scene(self._stack, self._baseline, rng, f"drill-{name}", [], first)
        work: Any = iter(()) if self._fault is None else self._fault.strike(scene)
        try:
            next(work, None)  # it arms itself before the first request
            for number in range(count):
                driven.append(self._submit(f"{scene.name}-{number}" if count > 1 else scene.name))
                scene.tasks.append(driven[-1].task)
            self._drive(scene, work, driven)
        finally:
            if hasattr(work, "close"):
                work.close()
        self._stack.revive()
        return self._record(scene, driven, time.monotonic() - began)

    def _submit(self, name: str) -> _Driven:
        task = self._plan.client.run(self._plan.team, self._plan.prompt, task_id=name, context=self._plan.context)
        return _Driven(task, LiveReader(task))

    def _drive(self, scene: Scene, work: Any, driven: list[_Driven]) -> None:
        """Resume the fault and act as the user, until all tasks rest and the fault has ended."""
        deadline = time.monotonic() + SETTLE_TIMEOUT
        finished = False
        while time.monotonic() < deadline:
            finished = finished or next(work, "ended") == "ended"
            resting = [self._at_rest(one) for one in driven]
            scene.settled = all(resting)
            if scene.settled and finished:
                return
            self._plan.on_wait()
            time.sleep(POLL_INTERVAL)

    def _at_rest(self, driven: _Driven) -> bool:
        """Return True if the task has ended, or waits and the user has nothing to do; act as the user if there is."""
        try:
            summary = driven.task.summary()
            now = (summary.status, summary.steps)
            driven.status = summary.status if summary.status.ended or summary.status.waiting else None
            if driven.status is None or now == driven.acted_on:
                return False
            if not self._act(driven, summary.status):
                return True
            driven.acted_on = now
        except (TransientError, UsageError):  # a server is away, or the task has ended meanwhile
            driven.status = None
        return False

    def _act(self, driven: _Driven, status: TaskStatus) -> bool:
        """Do what a person would do for a waiting task. Return False if there is nothing to do."""
        match status:
            case TaskStatus.APPROVAL:
                pending = driven.task.pending_actions()
                unapproved, unknown = pending.unapproved(), pending.unknown()
                for call in unapproved:
                    driven.task.approve(call.id)
                for call in unknown:
                    driven.task.resolve(call.id, True)
                return bool(unapproved or unknown)
            case TaskStatus.USER_TURN if driven.sent < len(USER_MESSAGES):
                driven.task.send(USER_MESSAGES[driven.sent])
                driven.sent += 1
                return True
            case _:
                return False

    def _record(self, scene: Scene, driven: list[_Driven], seconds: float) -> RunRecord:
        tasks = [self._observe(one, scene) for one in driven]
        own = {task.task_id for task in tasks}
        new = set(self._plan.client.task_ids()) - self._known_ids - own
        tasks += [self._observe_sub_task(task_id) for task_id in sorted(new)]
        closed = None
        if scene.interrupted is not None and scene.interrupted.client_disconnected_at is not None:
            closed = scene.interrupted.client_disconnected_at - scene.interruption_sent_at
        observed = ObservedRun(
            tasks,
            SETTLE_TIMEOUT,
            self._stack.executions.read()[self._executions :],
            self._baseline.irreversible,
            self._stack.model.violations[self._violations :],
            scene.redis_lost,
            scene.interrupted is not None,
            closed,
        )
        types = [kind for one in driven for kind in one.reader.transcript.types]
        return RunRecord(
            observed,
            scene,
            seconds,
            pause_seconds=max((_longest_gap(one.reader.times, scene.hit_at) for one in driven), default=0.0),
            restarts=types.count("event_turn_restart"),
            unknown=types.count("event_tool_unknown"),
            resets=types.count("event_stream_reset"),
            prompts=_prompts_after(scene),
            dead_letters=self._count_letters() - self._letters,
        )

    def _observe(self, driven: _Driven, scene: Scene) -> ObservedTask:
        """Read everything of the task. One that waits is stopped first, so that its readers end."""
        task, status = driven.task, driven.status
        try:
            reason = task.summary().reason
            if status is not None and not status.ended:
                task.stop("the drill has seen enough")
            self._wait_closed(task)
        except RobocoError as error:
            reason = str(error)
        if status is not None:
            driven.reader.wait(CLOSE_TIMEOUT)
        observed = self._read(task, status, reason)
        observed.steps_before = scene.steps_before.get(task.task_id, ())
        observed.live, observed.live_error = driven.reader.transcript, driven.reader.error
        if status is not None:
            observed.late = Transcript()
            for item in task.stream():
                observed.late.take(item)
        return observed

    def _observe_sub_task(self, task_id: str) -> ObservedTask:
        task = self._plan.client.stored_task(task_id)
        self._wait_closed(task)
        summary = task.summary()
        return self._read(task, summary.status if summary.status.ended else None, summary.reason)

    def _read(self, task: WatchedTask, status: TaskStatus | None, reason: str) -> ObservedTask:
        observed = ObservedTask(task.task_id, task.team(), status, reason)
        try:
            observed.steps = task.history()
            task.verify()
            observed.wrong_decisions = self._plan.wrong_decisions(task.task_id)
        except CorruptHistory as error:
            observed.chain_error = str(error)
        return observed

    def _wait_closed(self, task: WatchedTask) -> None:
        deadline = time.monotonic() + CLOSE_TIMEOUT
        while not task.is_at_rest() and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL)

    def _count_letters(self) -> int:
        with suppress(RobocoError):
            return sum(1 for _ in self._plan.client.dead_letters())
        return 0


def baseline_of(record: RunRecord, irreversible: frozenset[str]) -> Baseline:
    """Return what the run without a fault has shown."""
    steps = [step for task in record.observed.tasks for step in task.steps]
    status = record.observed.tasks[0].status
    return Baseline(
        tools=tuple(dict.fromkeys(one.tool for one in record.observed.executions)),
        irreversible=irreversible,
        calls=sum(len(step.results) for step in steps if step.agent_name == TOOL_EXECUTOR),
        turns=sum(step.by_agent for step in steps),
        seconds=record.seconds,
        status="" if status is None else str(status),
    )


def _longest_gap(times: list[float], since: float | None) -> float:
    """Return the longest time between two items that a reader received after this moment."""
    if since is None:
        return 0.0
    after = [since, *(one for one in times if one > since)]
    return max((later - earlier for earlier, later in pairwise(after)), default=0.0)


def _prompts_after(scene: Scene) -> dict[str, bool]:
    """Return for each agent whether its first request after the interruption holds the user's message."""
    found: dict[str, bool] = {}
    for record in scene.requests() if scene.interrupted is not None else ():
        if record.time > scene.interruption_sent_at:
            found.setdefault(agent_of(record.request)[1], INTERRUPTION in str(record.request.messages))
    return found
