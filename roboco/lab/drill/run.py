"""DrillRun: a task of the user's team under one fault, from its submission until it rests and all is healthy again."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory, RobocoError, TransientError, UsageError
from roboco.lab.drill.faults import Fault
from roboco.lab.drill.promises import ObservedRun, ObservedTask
from roboco.lab.drill.replies import agent_of
from roboco.lab.drill.scene import INTERRUPTION, Baseline, Scene
from roboco.lab.drill.stack import DrillStack
from roboco.lab.replay.replay import replay
from roboco.lab.transcript import Transcript

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
    client: Orchestrator
    team: Team
    prompt: str
    context: dict[str, str]
    tasks: int
    """The number of tasks that run together under a fault."""
    on_wait: Callable[[], None]
    """Called again and again while a run waits."""


class WatchedTask:
    """A task of a run, which a thread follows as a browser would. The drill acts as its user."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.status: TaskStatus | None = None
        """Its status while it has ended, or waits."""
        self.transcript = Transcript()
        self.error = ""
        """Why the thread could not follow it to its end, or ""."""
        self._sent = 0
        self._acted_on: tuple[TaskStatus, int] | None = None
        self._thread = threading.Thread(target=self._read, name="drill-reader", daemon=True)
        self._thread.start()

    def wait_read(self, seconds: float) -> None:
        """Wait until the thread has received the end of the task; note an error if it does not in time."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.error = f"it had not received the end of the task {seconds:g} s after it"

    def _read(self) -> None:
        try:
            for item in self.task.stream():
                self.transcript.take(item)
        except Exception as error:  # the report names it
            self.error = repr(error)

    def is_at_rest(self) -> bool:
        """Return True if the task has ended, or waits and the user has nothing to do; act as the user if there is."""
        try:
            summary = self.task.summary()
            now = (summary.status, summary.steps)
            self.status = summary.status if summary.status.ended or summary.status.waiting else None
            if self.status is None or now == self._acted_on:
                return False
            if not self._act(summary.status):
                return True
            self._acted_on = now  # until the status or the number of steps changes, the task is not at rest
        except (TransientError, UsageError):  # a server is away, or the task has ended meanwhile
            self.status = None
        return False

    def _act(self, status: TaskStatus) -> bool:
        """Do what a person would do for a waiting task. Return False if there is nothing to do."""
        match status:
            case TaskStatus.APPROVAL:
                pending = self.task.pending_actions()
                unapproved, unknown = pending.unapproved(), pending.unknown()
                for call in unapproved:
                    self.task.approve(call.id)
                for call in unknown:
                    self.task.resolve(call.id, True)
                return bool(unapproved or unknown)
            case TaskStatus.USER_TURN if self._sent < len(USER_MESSAGES):
                self.task.send(USER_MESSAGES[self._sent])
                self._sent += 1
                return True
            case _:
                return False


class DrillRun:
    """One run. Main thread only, because it starts processes."""

    def __init__(self, plan: DrillPlan, fault: Fault, baseline: Baseline) -> None:
        stack = plan.stack
        self._began = time.monotonic()
        self._scene = Scene(stack, baseline, f"drill-{fault.name}", stack.model.count)
        self._plan = plan
        self._fault = fault
        self._watched: list[WatchedTask] = []
        self._violations = len(stack.model.violations)
        self._executions = len(stack.executions.read())
        self._known_ids = set(plan.client.task_ids())

    def execute(self) -> ObservedRun:
        """Run the task under the fault, and return what is left of it. The stack is healthy after that."""
        plan, name = self._plan, self._scene.name
        count = plan.tasks if self._fault.group not in ("baseline", "user") else 1
        work = self._fault.strike(self._scene)
        try:
            next(work, None)  # it arms itself before the first request
            for number in range(count):
                task_id = f"{name}-{number}" if count > 1 else name
                task = plan.client.run(plan.team, plan.prompt, task_id=task_id, context=plan.context)
                self._watched.append(WatchedTask(task))
                self._scene.tasks.append(task)
            deadline, finished = time.monotonic() + SETTLE_TIMEOUT, False
            while time.monotonic() < deadline and not (self._scene.settled and finished):
                finished = finished or next(work, "ended") == "ended"
                resting = [one.is_at_rest() for one in self._watched]
                self._scene.settled = all(resting)
                plan.on_wait()
                time.sleep(POLL_INTERVAL)
        finally:
            work.close()
        plan.stack.revive()
        return self._observe()

    def _observe(self) -> ObservedRun:
        scene, stack = self._scene, self._plan.stack
        tasks = [self._observe_task(one) for one in self._watched]
        new = set(self._plan.client.task_ids()) - self._known_ids - {task.task_id for task in tasks}
        tasks += [self._observe_sub_task(task_id) for task_id in sorted(new)]
        closed = None if scene.interrupted is None else scene.interrupted.client_disconnected_at
        return ObservedRun(
            tasks,
            SETTLE_TIMEOUT,
            stack.executions.read()[self._executions :],
            scene.baseline.irreversible,
            stack.model.violations[self._violations :],
            scene.redis_lost,
            scene.interrupted is not None,
            None if closed is None else closed - scene.interruption_sent_at,
            _prompts_after(scene),
            scene.hit,
            scene.notes,
            time.monotonic() - self._began,
        )

    def _observe_task(self, watched: WatchedTask) -> ObservedTask:
        """Read everything of the task. One that waits is stopped first, so that its readers end."""
        task, status = watched.task, watched.status
        try:
            reason = task.summary().reason
            if status is not None and not status.ended:
                task.stop("the drill has seen enough")
            _wait_closed(task)
        except RobocoError as error:
            reason = str(error)
        if status is not None:
            watched.wait_read(CLOSE_TIMEOUT)
        observed = self._read(task, status, reason)
        observed.steps_before = self._scene.steps_before.get(task.task_id, ())
        observed.live, observed.live_error = watched.transcript, watched.error
        if status is not None:
            observed.late = Transcript()
            for item in task.stream():
                observed.late.take(item)
        return observed

    def _observe_sub_task(self, task_id: str) -> ObservedTask:
        task = self._plan.client.stored_task(task_id)
        _wait_closed(task)
        summary = task.summary()
        return self._read(task, summary.status if summary.status.ended else None, summary.reason)

    def _read(self, task: Task, status: TaskStatus | None, reason: str) -> ObservedTask:
        observed = ObservedTask(task.task_id, task.team(), status, reason)
        try:
            observed.steps = task.history()
            task.verify()
            recorded = task.recorded(router=self._plan.client.router(observed.team))
            observed.wrong_decisions = [
                f"step {one.seq}: recorded {one.recorded}, decided {one.chosen}"
                for one in replay(recorded)
                if one.comparison == "differs"
            ]
        except CorruptHistory as error:
            observed.chain_error = str(error)
        return observed


def _wait_closed(task: Task) -> None:
    deadline = time.monotonic() + CLOSE_TIMEOUT
    while not task.is_at_rest() and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL)


def _prompts_after(scene: Scene) -> dict[str, bool]:
    """Return for each agent whether its first request after the interruption holds the user's message."""
    found: dict[str, bool] = {}
    for record in scene.requests() if scene.interrupted is not None else ():
        if record.time > scene.interruption_sent_at:
            found.setdefault(agent_of(record.request)[1], INTERRUPTION in str(record.request.messages))
    return found
