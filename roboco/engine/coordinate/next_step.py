"""next_step: decide the next step of a task, record the decision and dispatch it.

    step stored ─► decide (pure) ─► commit and record ─► dispatch
                                    (one write, fenced)

The process that has stored a step decides the next one itself if that is a turn or a set of tool calls: the worker that
committed the step, or the client that submitted the task. This saves a message and a pass of the coordinator. The
coordinator decides everything else: inbox items, start times, custom routers, waits, ends and compaction.

All of them call the same pure function, `decide`, with the same inputs. Redis compares the epoch (the fencing token of
the task) when a decision is recorded, so only the first decision counts, and the others change nothing.

A worker may die between two arrows. Then a step is stored without a decision, or a decision is recorded without a
message. The sweeper finds the task in the schedule and continues from there.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import WORKER_LOST_RULE, Action, CallTools, Route, Situation, StartTurn
from roboco.domain.decision.decide import decide
from roboco.domain.decision.router import Router, route
from roboco.domain.decision.tool_answers import BUILTIN_TIMEOUT, by_coordinator
from roboco.domain.history.compaction import compaction_due
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.state import History
from roboco.domain.history.step import TaskStep
from roboco.domain.history.steps_on_demand import StepsOnDemand
from roboco.domain.ids import step_id_at, sub_task_id
from roboco.domain.inbox.item import Item
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, StatusChanged, SubTaskStarted
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.engine import day_budgets
from roboco.engine.coordinate.running_entry import index_as
from roboco.engine.engine import Engine, Services, TaskStores, store_dead_letter
from roboco.engine.history_tail import shows_decision
from roboco.engine.record.recover import selection
from roboco.errors import TransientError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.lease_renewals import AttemptLease
from roboco.ports.snapshot import COORDINATOR_TAIL_LENGTH, Decision, Phase, Snapshot
from roboco.ports.task_store import Commit

_log = logging.getLogger(__name__)


def _guarded_router(engine: Engine, task_id: str, name: str) -> Router:
    """Return the user's router with guards: if it raises, or kills its worker repeatedly, the task fails.

    The returned router raises TransientError while another worker calls the user's router for the same task.
    """
    key = f"router:{task_id}"

    def call_guarded(team: Team, history: History) -> Route:
        lost = engine.tasks.leases.start_attempt(key)
        if lost is None:
            raise TransientError(
                f"router {name!r} is running for this task on another worker, or on one that was lost; it is retried"
            )
        if lost >= engine.policy.max_attempts:
            why = f"the worker was lost {lost} times while it ran"
            store_dead_letter(engine, "advance", task_id, f"router {name}", why, lost)
            chosen = Route("", name, WORKER_LOST_RULE, why)
        else:
            with engine.process.heartbeat.renewing(AttemptLease(key)):
                chosen = _call_router(engine, name, key, team, history)
        _reset_attempts(engine.tasks, key)
        return chosen

    return call_guarded


def _reset_attempts(tasks: TaskStores, key: str) -> None:
    try:
        tasks.leases.finish_attempts(key)
    except TransientError as error:
        _log.warning("the attempts at a router stay counted, because Redis does not answer: %s", error)


def _call_router(engine: Engine, name: str, key: str, team: Team, history: History) -> Route:
    try:
        return engine.services.toolbox.router(name)(team, history)
    except TransientError:
        _reset_attempts(engine.tasks, key)
        raise
    except Exception as error:
        return Route("", name, "failed", f"{type(error).__name__}: {error}"[:1000])


MAX_NAMED = 10
"""Sub-tasks that the reason of a running task names."""


@dataclass(frozen=True)
class NextStep:
    """The next step of one task, as loaded: to be decided, recorded and dispatched."""

    engine: Engine
    task_id: str
    team: Team
    task: Snapshot
    by: str | None = None
    """The caller that lets a paused task continue, or None."""

    def decide(self, pending_items: tuple[Item, ...] = (), give_up_reason: str | None = None) -> Action:
        """Return the next action. `give_up_reason` is why the pending turn gets no further attempt."""
        engine, task = self.engine, self.task
        model = self.team.collaboration_model
        router = _guarded_router(engine, self.task_id, model.router) if isinstance(model, Custom) else route
        started, teams = None, engine.workspace.frozen_teams
        if self.team.limits.with_overrides(task.state.limit_overrides).max_seconds is not None:
            started = teams.started_at(self.task_id, task.state, task.steps.first)
        situation = Situation(
            inbox=pending_items,
            outcomes={call_id: call.outcome for call_id, call in task.calls.items() if call.outcome is not None},
            seconds=engine.clock.now() - task.state.limits_since(started).timestamp() if started else 0.0,
            give_up_reason=give_up_reason,
            sub_task=parent_of(self.task_id, task.steps.first) is not None,
            pending_turn=task.position.phase is Phase.TURN,
        )
        whole = StepsOnDemand(partial(engine.workspace.histories.read, self.task_id), task.position.seq)
        return decide(self.team, History(task.state, task.steps.tail, whole), situation, router)

    def decide_locally(self) -> StartTurn | CallTools | None:
        """Return the turn or the tool calls that follow, or None if a coordinator has to decide."""
        task = self.task
        if (
            isinstance(self.team.collaboration_model, Custom)
            or compaction_due(task.position.seq - 1)
            or not shows_decision(task, self.team.routes_by_run)
        ):
            return None
        match self.decide():
            case StartTurn() as action:
                return action
            case CallTools(calls, "") as action if not any(by_coordinator(self.team, call) for call in calls):
                return action
            case _:
                return None

    def record_and_dispatch(self, action: StartTurn | CallTools) -> int | None:
        """Record the action and dispatch it, without the calls that coordinators start. Return the new epoch.

        Return None, and do neither, if the epoch has changed or an item came.
        """
        choice, events = self._decision(action)
        choice = replace(choice, seen_item_ids=frozenset(self.task.item_ids))
        epoch = self.engine.tasks.task_store.record_decision(self.task_id, self.task.position.epoch, choice, events)
        if epoch is not None:
            self._dispatch(action, epoch)
            if self.task.position.status is not TaskStatus.RUNNING:
                index_as(self.engine, self.task_id, self.task, TaskStatus.RUNNING, epoch)
        return epoch

    def create_and_dispatch(self, action: StartTurn, steps: Sequence[TaskStep], events: Sequence[AnyEvent]) -> bool:
        """Create the task with these steps and events, record the action in the same write, and dispatch it.

        The task has an entry in the schedule. Return False if a coordinator has to decide: the task exists already, or
        an item came.
        """
        choice, more = self._decision(action)
        store, state = self.engine.tasks.task_store, self.task.state
        epoch = store.create_with_decision(self.task_id, steps, state, events, choice, more)
        if epoch is None:
            return False
        self._send_turn(action, epoch)
        index_as(self.engine, self.task_id, self.task, TaskStatus.RUNNING, epoch)
        return True

    def commit_and_continue(self, commit: Commit) -> bool:
        """Commit the step that was just stored, and record and dispatch the action that follows in the same write.

        Return False if a coordinator has to continue: it decides, or the epoch has changed.
        """
        day_budgets.count(self.engine, self.task_id, self.task.steps.first, commit.state, ends_turn=True)
        after, store, before = self._after_commit(commit), self.engine.tasks.task_store, self.task.position.epoch
        action = after.decide_locally()
        if action is None:
            store.commit(self.task_id, before, commit)
            return False
        epoch = store.commit_with_decision(self.task_id, before, commit, *after._decision(action))
        if epoch is None:
            return False
        after._dispatch(action, epoch)
        return True

    def _after_commit(self, commit: Commit) -> "NextStep":
        step, task = commit.step, self.task
        tail = (*task.steps.tail, step)[-COORDINATOR_TAIL_LENGTH:]
        position = replace(task.position, seq=step.seq + 1, status=TaskStatus.RUNNING)
        steps = replace(task.steps, tail=tail)
        return replace(self, task=replace(task, position=position, state=commit.state, steps=steps, calls={}))

    def _decision(self, action: StartTurn | CallTools) -> tuple[Decision, Sequence[AnyEvent]]:
        match action:
            case StartTurn():
                return self._turn_decision(action)
            case CallTools():
                return self._calls_decision(action)

    def _turn_decision(self, action: StartTurn) -> tuple[Decision, Sequence[AnyEvent]]:
        task_id, now, routing = self.task_id, self.engine.now(), action.route.record()
        events: list[AnyEvent] = []
        if self.task.position.status is not TaskStatus.RUNNING:
            running = TaskStatus.RUNNING
            events.append(StatusChanged(task_id=task_id, timestamp=now, status=running, reason="", by=self.by))
        step_id = step_id_at(task_id, self.task.position.seq)
        events += selection(task_id, now, step_id, action.agent, routing, action.handed_off_by)
        return Decision(Phase.TURN, TaskStatus.RUNNING, agent=action.agent, routing=routing), events

    def _calls_decision(self, action: CallTools) -> tuple[Decision, Sequence[AnyEvent]]:
        task_id, now = self.task_id, self.engine.now()
        delegating = [call for call in action.calls if call.tool_name == DELEGATE]
        sub_task_ids = [sub_task_id(task_id, call.id) for call in delegating]
        more = f" and {len(sub_task_ids) - MAX_NAMED} more" if len(sub_task_ids) > MAX_NAMED else ""
        names = ", ".join(sub_task_ids[:MAX_NAMED])
        reason = f"sub-tasks are running: {names}{more}" if len(delegating) == len(action.calls) else ""
        events: list[AnyEvent] = [
            SubTaskStarted(
                task_id=task_id, timestamp=now, tool_call_id=call.id, sub_task_id=child, team=str(call.args["team"])
            )
            for call, child in zip(delegating, sub_task_ids, strict=True)
        ]
        reason = "; ".join(part for part in (reason, action.waits) if part)
        if reason or self.task.position.status is not TaskStatus.RUNNING:
            running = TaskStatus.RUNNING
            events.append(StatusChanged(task_id=task_id, timestamp=now, status=running, reason=reason, by=self.by))
        return Decision(Phase.TOOLS, TaskStatus.RUNNING, reason, agent=self.task.steps.tail[-1].agent_name), events

    def _dispatch(self, action: StartTurn | CallTools, epoch: int) -> None:
        engine, task_id = self.engine, self.task_id
        engine.tasks.schedule.set(task_id, engine.policy.redelivery_delay)
        if isinstance(action, StartTurn):
            self._send_turn(action, epoch)
            return
        for call in action.calls:
            if not by_coordinator(self.team, call):
                dispatch_call(engine.services, self.team, self.task.call_order(task_id, call.id, epoch), call)

    def _send_turn(self, action: StartTurn, epoch: int) -> None:
        self.engine.services.dispatcher.turn(self.task.turn_order(self.task_id, epoch, attempt=1), action.agent)


def dispatch_call(services: Services, team: Team, assignment: ToolAssignment, call: ToolCall) -> None:
    """Send the call to the tools workers."""
    spec = team.tool(call.tool_name)
    timeout = BUILTIN_TIMEOUT if spec is None else spec.time_limit
    services.dispatcher.tool(assignment, call.tool_name, timeout)
