"""A deployment in memory. Tests deliver its messages one by one and move its clock."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roboco.domain.decision.action import Situation, Wait
from roboco.domain.decision.decide import decide
from roboco.domain.decision.router import Router, route
from roboco.domain.history.lineage import Retry, parent_of
from roboco.domain.history.part import ToolOutcome
from roboco.domain.history.state import History
from roboco.domain.history.step import TaskStep
from roboco.domain.inbox.item import Stop, UserMessage, parse_item, superseded
from roboco.domain.inbox.submission import Submission
from roboco.domain.paths import inbox_path, open_marker_path, summary_path
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.engine.accept import answer, control
from roboco.engine.accept import control as message
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.accept.accept_task import accept_and_wake
from roboco.engine.accept.fork import retry_task
from roboco.engine.coordinate.advance import advance
from roboco.engine.coordinate.submit import submit
from roboco.engine.engine import Engine, Policy, Process, Services, TaskStores, WorkspaceRecords
from roboco.engine.history_tail import HistoryTails, StepCache
from roboco.engine.operate.fill import REFILL_INTERVAL
from roboco.engine.operate.notification_delivery import deliver
from roboco.engine.record.tool_listings import list_tools
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from roboco.engine.switches import SwitchBoard
from roboco.engine.workspace_records import FrozenTeams, StoredEvents
from roboco.errors import Overloaded, TransientError
from roboco.ports.snapshot import Phase
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.dispatcher import (
    AdvanceMessage,
    ListToolsMessage,
    Message,
    NotifyMessage,
    QueueDispatcher,
    ToolMessage,
    TurnMessage,
)
from tests.support.memory_ports.heartbeat import ManualHeartbeat
from tests.support.memory_ports.held_work import ManualHeldWork, MemoryHost
from tests.support.memory_ports.leases import MemoryLeaseRenewals, MemoryLeases
from tests.support.memory_ports.model import ScriptedModel
from tests.support.memory_ports.notifier import MemoryNotifier
from tests.support.memory_ports.rates import MemoryRates
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.schedule import (
    MemoryDeadLetters,
    MemoryLogs,
    MemorySchedule,
)
from tests.support.memory_ports.server import MemoryServer
from tests.support.memory_ports.shop import MemoryShop
from tests.support.memory_ports.sweeping import sweep
from tests.support.memory_ports.task_index import MemoryTaskIndex
from tests.support.memory_ports.task_store import MemoryTaskStore
from tests.support.memory_ports.telemetry import MemoryTelemetry
from tests.support.memory_ports.toolbox import MemoryToolbox
from tests.support.memory_ports.watch import Crash, Watch, make_call, watch_port
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories

TASK = "task_1"
POLICY = Policy(lease=15.0, redelivery_delay=10.0, max_attempts=3)
WORKER = "worker@here"
SWEEP_INTERVAL = 1.0
"""Seconds between two sweeps."""
UNSCHEDULED_WAIT = 60.0
"""Seconds from sweep to sweep while the schedule does not hold the task."""
MAX_SWEEPS = 60
"""Maximal number of sweeps until a task has settled."""


@dataclass(frozen=True)
class Given:
    """The model, toolbox and policy of a world."""

    model: ScriptedModel
    toolbox: MemoryToolbox
    policy: Policy = field(default_factory=lambda: POLICY)


class World:
    """All processes and servers of a deployment, whose schedule is filled. `watch` intercepts every port call.

    `failures` holds the exceptions that workers raised.
    """

    def __init__(self, given: Given, watch: Watch = make_call) -> None:
        self.given = given
        self.watch = watch
        self.clock = ManualClock()
        self.server = MemoryServer()
        self.files = MemoryFiles()
        self.histories = MemoryHistories()
        self.dispatcher = QueueDispatcher(self.clock)
        renewals = MemoryLeaseRenewals(self.server, self.clock, given.policy.lease)
        self.heartbeat = ManualHeartbeat(watch_port(renewals, "renewals", lambda name, call: self.watch(name, call)))
        self.notifier = MemoryNotifier()
        self.shop = MemoryShop()
        self.failures: list[Exception] = []
        self.telemetry = MemoryTelemetry()
        self.host = MemoryHost()
        self.engine = self.process()
        MemorySchedule(self.server, self.clock).mark_filled(REFILL_INTERVAL)

    def process(self) -> Engine:
        """Return the engine of a new process."""

        def watch(name: str, call: Any) -> Any:
            return self.watch(name, call)

        lease = self.given.policy.lease
        files = watch_port(self.files, "files", watch)
        workers = watch_port(MemoryWorkerRegistry(self.server, self.clock, WORKER), "workers", watch)
        switches = SwitchBoard(files, workers, self.clock)
        return Engine(
            tasks=TaskStores(
                task_store=watch_port(MemoryTaskStore(self.server, self.clock), "task_store", watch),
                leases=watch_port(MemoryLeases(self.server, self.clock, lease), "leases", watch),
                schedule=watch_port(MemorySchedule(self.server, self.clock), "schedule", watch),
                event_logs=watch_port(MemoryLogs(self.server), "logs", watch),
                dead_letters=watch_port(MemoryDeadLetters(self.server), "dead_letters", watch),
                task_index=watch_port(MemoryTaskIndex(self.server, self.clock), "task_index", watch),
            ),
            workspace=WorkspaceRecords(files, watch_port(self.histories, "histories", watch), FrozenTeams(files)),
            services=Services(
                call_model=watch_port(self.given.model, "model", watch).stream,
                rate_limiter=watch_port(MemoryRates(self.server, self.clock), "rates", watch),
                toolbox=watch_port(self.given.toolbox, "toolbox", watch),
                dispatcher=watch_port(self.dispatcher, "dispatcher", watch),
                deliver=lambda *notice: watch_port(self.notifier, "notifier", watch).deliver(*notice),
                listen=self.server.listen,
                workers=workers,
                shop=watch_port(self.shop, "shop", watch),
                telemetry=self.telemetry,
            ),
            process=Process(self.heartbeat, ManualHeldWork(self.host, switches), switches),
            clock=self.clock,
            policy=self.given.policy,
        )

    def submit(
        self, team: Team, prompt: str = "go", task_id: str = TASK, at_once: bool = False, **options: Any
    ) -> None:
        """Submit the task. A client that crashes sends the same submission again.

        With `at_once` dispatch the first turn, as a client does; else wake a coordinator, as a delegating call does.
        """
        submission = Submission(task_id=task_id, team=team.name, prompt=prompt, **options)
        accept = submit if at_once else accept_and_wake
        self.retry_until_answered(lambda: accept(self.engine, submission, team))

    def send(
        self,
        text: str,
        item_id: str = "item1",
        agent: str | None = None,
        task_id: str = TASK,
        if_busy: message.IfBusy | None = None,
        attachments: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Send a user message."""
        item = UserMessage(
            item_id=item_id, created_at=self.engine.now(), text=text, agent=agent, attachments=dict(attachments)
        )
        self.retry_until_answered(lambda: message.accept_message(self.engine, task_id, item, if_busy))

    def interrupt(self, text: str, item_id: str = "item1", agent: str | None = None, task_id: str = TASK) -> None:
        """Send a user message that interrupts."""
        item = UserMessage(item_id=item_id, created_at=self.engine.now(), text=text, agent=agent)
        self.retry_until_answered(lambda: message.accept_message(self.engine, task_id, item, "interrupt"))

    def halt(self, item_id: str = "halt1", task_id: str = TASK) -> None:
        """Interrupt the task without a message."""
        self.retry_until_answered(lambda: message.accept_interrupt(self.engine, task_id, item_id))

    def pause(self, item_id: str = "pause1", task_id: str = TASK) -> None:
        """Send a pause."""
        self.retry_until_answered(lambda: control.pause(self.engine, task_id, item_id))

    def step(self, item_id: str = "step1", task_id: str = TASK) -> None:
        """Let a paused task run one step."""
        self.retry_until_answered(lambda: control.step(self.engine, task_id, item_id))

    def resume(self, item_id: str = "resume1", task_id: str = TASK) -> None:
        """Resume a paused task."""
        self.retry_until_answered(lambda: control.resume(self.engine, task_id, item_id))

    def answer(self, outcome: ToolOutcome, task_id: str = TASK, form: dict[str, Any] | None = None) -> None:
        """Submit the outcome of a client tool's call, with the form of the answer that follows."""
        self.retry_until_answered(lambda: answer.answer(self.engine, task_id, outcome, form=form))

    def decide_approval(
        self,
        call_id: str,
        approved: bool,
        reason: str = "",
        args: dict[str, Any] | None = None,
        task_id: str = TASK,
    ) -> None:
        """Approve or deny a call."""
        approval = answer.CallApproval(approved, reason, args)
        self.retry_until_answered(lambda: answer.decide_approval(self.engine, task_id, call_id, approval))

    def stop(self, item_id: str = "stop1", reason: str = "stopped by the user", task_id: str = TASK) -> None:
        """Send a stop."""
        item = Stop(item_id=item_id, created_at=self.engine.now(), reason=reason)
        self.retry_until_answered(lambda: accept_item(self.engine, task_id, item))

    def retry(
        self,
        reason: str = "fixed",
        task_id: str = TASK,
        by: str | None = None,
        **limits: Any,
    ) -> str:
        """Retry the failed task. Return the id of the new one."""
        retry = Retry(reason=reason, limits=limits)
        self.retry_until_answered(lambda: retry_task(self.engine, task_id, retry, by))
        return self.summary(task_id).retried_as

    def deliver(self, message: Message) -> None:
        """Run the message in a worker. A worker that dies loses it, and a new process replaces the worker."""
        self._run_worker(lambda: self._handle(message))

    def drain(self, limit: int = 2000) -> None:
        """Deliver messages, oldest first, until the queue is empty."""
        for _ in range(limit):
            if not self.dispatcher.queue:
                return
            self.deliver(self.dispatcher.queue.popleft())
        raise AssertionError(f"still busy after {limit} messages: {list(self.dispatcher.queue)[:5]}")

    def sweep(self) -> None:
        """Run one sweep in a coordinator worker."""
        self.clock.move(SWEEP_INTERVAL)
        self._run_worker(lambda: sweep(self.engine, self.server))

    def settle(self, task_id: str = TASK) -> None:
        """Deliver, move the clock and sweep until the task has ended or waits. Raise AssertionError at the limit."""
        for _ in range(MAX_SWEEPS):
            self.drain()
            if self.is_settled(task_id):
                return
            self.clock.move(
                self.server.held.schedule.get(task_id, self.clock.now() + UNSCHEDULED_WAIT) - self.clock.now()
            )
            self.sweep()
        raise AssertionError(f"task {task_id} never settles: {self.failures[:3]} {self.server.held.tasks.get(task_id)}")

    def settle_for(self, sweeps: int) -> None:
        """Deliver, move the clock and sweep, as often as `sweeps`."""
        for _ in range(sweeps):
            self.drain()
            self.clock.move(self.given.policy.lease)
            self.sweep()
        self.drain()

    def is_settled(self, task_id: str = TASK) -> bool:
        """Return True if the task has ended and is closed, or waits and has applied all its items."""
        if self.summary(task_id).status.ended and open_marker_path(task_id) not in self.files.held:
            return task_id not in self.server.held.schedule
        task = self.server.held.tasks.get(task_id)
        if task is None or task.phase is not Phase.WAIT:
            return False
        return task.seq == len(self.history(task_id)) and self.waits_on(task_id)

    def waits_on(self, task_id: str) -> bool:
        """Return True if no item or outcome ends the task's wait."""
        stored = MemoryTaskStore(self.server, self.clock).load(task_id, 100)
        assert stored is not None
        task = HistoryTails(self.histories, StepCache()).complete(task_id, stored, 100)
        paths = [path for path in self.files.held if path.startswith(inbox_path(task_id))]
        found = [parse_item(self.files.held[path]) for path in paths]
        ended = superseded(found)
        inbox = tuple(
            item for item in found if item.item_id not in ended and item.item_id not in task.state.recent_item_ids
        )
        outcomes = {call_id: call.outcome for call_id, call in task.calls.items() if call.outcome is not None}
        team = FrozenTeams(self.files).get(task_id)
        sub_task = parent_of(task_id, task.steps.first) is not None
        model = team.collaboration_model
        router = self.given.toolbox.router(model.router) if isinstance(model, Custom) else route
        action = decide(
            team, History(task.state, task.steps.tail), Situation(inbox, outcomes, sub_task=sub_task), router
        )
        return isinstance(action, Wait) and action.status is task.position.status

    def pending_item_ids(self, task_id: str = TASK) -> list[str]:
        """Return the ids of the accepted items in the workspace that are not applied yet."""
        items = [parse_item(self.files.held[path]) for path in self.files.held if path.startswith(inbox_path(task_id))]
        return [item.item_id for item in items if item.applied_at_seq is None]

    def summary(self, task_id: str = TASK) -> TaskSummary:
        """Return the summary in `task.json`."""
        return TaskSummary.model_validate_json(self.files.held[summary_path(task_id)])

    def status(self, task_id: str = TASK) -> TaskStatus:
        """Return the status in Redis, or in `task.json` if Redis does not hold the task."""
        task = self.server.held.tasks.get(task_id)
        return task.status if task is not None else self.summary(task_id).status

    def history(self, task_id: str = TASK) -> list[TaskStep]:
        """Return the committed steps."""
        return list(self.histories.read(task_id))

    def recorded(self, task_id: str = TASK) -> RecordedTask:
        """Return the recorded task, to explain or replay its decisions."""
        team, steps = self.engine.workspace.frozen_teams.get(task_id), tuple(self.history(task_id))
        reason = self.server.held.tasks[task_id].reason
        return RecordedTask(team, steps, self.status(task_id), reason, started_at=steps[0].created_at)

    def events(self, task_id: str = TASK) -> list[dict[str, Any]]:
        """Return the events of the present generation, with those that are trimmed from the log."""
        task = self.server.held.tasks[task_id]
        archive = StoredEvents(self.files, self.histories)
        archived = archive.read(task_id, task.generation, 0, task.first_event)
        return [*archived, *(json.loads(message) for message in task.events)]

    def published(self, task_id: str = TASK) -> list[dict[str, Any]]:
        """Return all messages that a subscriber of both channels received."""
        return [json.loads(message) for name, message in self.server.published if name == task_id]

    def _run_worker(self, work: Callable[[], object]) -> None:
        """Run the work as a worker process does: keep an exception, replace a process that dies."""
        try:
            work()
        except Crash:
            self.engine = self.process()
        except Exception as error:
            self.failures.append(error)

    def _handle(self, message: Message) -> None:
        match message:
            case AdvanceMessage():
                advance(self.engine, message.task_id)
            case TurnMessage():
                run_turn(self.engine, message.assignment)
            case ToolMessage():
                run_call(self.engine, message.assignment)
            case ListToolsMessage():
                list_tools(self.engine, message.request)
            case NotifyMessage():
                deliver(self.engine, message.task_id)

    def retry_until_answered(self, call: Any) -> None:
        """Make a client's request. Repeat it if no answer arrives or the process dies, three times at most."""
        for _ in range(3):
            try:
                call()
            except Overloaded:
                raise
            except TransientError:
                continue
            except Crash:
                self.engine = self.process()
                continue
            return
        raise AssertionError("three times without an answer")


def team_of(**fields: Any) -> Team:
    """Return a team with these fields."""
    return validate_team({"name": "desk"} | fields)


def world_parts(
    script: Any,
    functions: Mapping[str, Any] | None = None,
    routers: Mapping[str, Router] | None = None,
    policy: Policy | None = None,
) -> Given:
    """Return the parts of a world with this script, these tools and routers."""
    made = Given(ScriptedModel(script), MemoryToolbox(functions, routers))
    return made if policy is None else Given(made.model, made.toolbox, policy)
