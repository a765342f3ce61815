"""recover: bring Redis up to the state of the workspace. The workspace is the record; Redis can be rebuilt from it.

    workspace: history.jsonl, inbox/, marker ─► verify digests ─► inbox ─► task in Redis, with StreamReset
    Redis was restarted, or set back         ─► new generation of the logs (their numbers are never used twice)

Every write to Redis is fenced by the task's epoch. A rebuilt task starts with an epoch above the archived one, so that
messages and leases from before the loss are refused.

A killed worker reports nothing to displays such as Flower. The worker that finds the attempt's step stored, or its turn
or call superseded, reports the end of the attempt instead.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from roboco.domain.decision.action import ATTEMPTS
from roboco.domain.decision.tool_answers import needs_resolution
from roboco.domain.history.part import ToolOutcome
from roboco.domain.history.state import fold, state_after
from roboco.domain.history.step import HANDED_OFF_BY, ORCHESTRATOR, USER, TaskStep, parse_step, verify_chain
from roboco.domain.history.task_state import TaskState
from roboco.domain.ids import step_id_at
from roboco.domain.paths import (
    CLOSED,
    ERASE_PREFIX,
    OPENED,
    applied_path,
    erasure_path,
    inbox_path,
    item_path,
    open_marker_path,
    summary_path,
)
from roboco.domain.removal.erasure import ErasureRequest
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import (
    AgentHandedOff,
    AgentSelected,
    AnyEvent,
    StatusChanged,
    StepEnded,
    StreamReset,
    TaskEnded,
    ToolCalled,
    ToolReturned,
    TurnRestarted,
    UserInterrupted,
    UserMessageAdded,
)
from roboco.domain.task_summary import parse_summary
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.workspace_records import receipt_of
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.dispatcher import AttemptStatus, Dispatcher
from roboco.ports.snapshot import COORDINATOR_TAIL_LENGTH, CallState, Phase, Snapshot
from roboco.ports.task_store import Commit


def newest_step(engine: Engine, task_id: str) -> TaskStep | None:
    """Return the newest step of the workspace, or None if there is none.

    Cost: one read of Redis, and the steps after those that Redis has applied: none, or few. Of a task that Redis does
    not have, or while Redis does not answer, the steps after those of its summary.
    """
    newest: TaskStep | None = None
    for step in engine.workspace.histories.read(task_id, max(0, _known_steps(engine, task_id) - 1)):
        newest = step
    return newest


def _known_steps(engine: Engine, task_id: str) -> int:
    """Return a number of steps that the history has at least."""
    try:
        live = engine.tasks.task_store.load(task_id, 1)
    except TransientError:
        live = None
    if live is not None:
        return live.position.seq
    summary = engine.workspace.summaries.get(task_id)
    return 0 if summary is None else summary.steps


def report_attempts(dispatcher: Dispatcher, task_id: str, task: Snapshot, step: TaskStep) -> None:
    """Report the ends of the pending attempts, after the step at their position was stored. A repetition is harmless.

    A worker that has just made the step does not call this: it reports its own attempt.
    """
    match task.position.phase:
        case Phase.TURN:
            _report_turn(dispatcher, task_id, task, step)
        case Phase.TOOLS:
            _report_calls(dispatcher, task_id, task, step)
        case _:
            return


def _report_turn(dispatcher: Dispatcher, task_id: str, task: Snapshot, step: TaskStep) -> None:
    attempt, agent = task.attempt, task.position.agent
    if step.by_agent:
        number = int(step.metadata.get("attempt", attempt.number))
        end = AttemptStatus.DONE if step.error is None else AttemptStatus.FAILED
        dispatcher.report_attempt_end(task.turn_order(task_id, attempt=number), agent, end)
    elif attempt.claimed or attempt.deferred_for is not None:  # else it is refused when its message arrives
        end = _status_without_result(step, attempt.claimed and attempt.lease_left <= 0)
        dispatcher.report_attempt_end(task.turn_order(task_id), agent, end)


def _report_calls(dispatcher: Dispatcher, task_id: str, task: Snapshot, step: TaskStep) -> None:
    for call in task.steps.tail[-1].calls:
        state = task.calls.get(call.id)
        if state is not None and state.claimed and state.outcome is None:
            end = _status_without_result(step, state.lease_left <= 0)
            dispatcher.report_attempt_end(task.call_order(task_id, call.id), call.tool_name, end)


def _status_without_result(step: TaskStep, lost: bool) -> AttemptStatus:
    """Return LOST if the worker was lost and the step reports the last attempt, else SUPERSEDED."""
    given_up = step.error is not None and step.error.code == ATTEMPTS
    return AttemptStatus.LOST if given_up and lost else AttemptStatus.SUPERSEDED


_log = logging.getLogger(__name__)


def load_task(engine: Engine, task_id: str) -> Snapshot | None:
    """Return the task, rebuilt from its workspace if Redis has lost it, or None if it is not open.

    If it was erased, its marker is that of a client that was late.
    """
    task = engine.tasks.task_store.load(task_id, COORDINATOR_TAIL_LENGTH)
    if (
        task is None
        and engine.workspace.files.get(open_marker_path(task_id)) is not None
        and not erase_again(engine, task_id)
    ):
        rebuild(engine, task_id)
        task = engine.tasks.task_store.load(task_id, COORDINATOR_TAIL_LENGTH)
    return task


def erase_again(engine: Engine, task_id: str) -> bool:
    """If the task was erased, have a coordinator remove what arrived since, and return True."""
    receipt = receipt_of(engine.workspace.files, task_id)
    if receipt is None:
        return False
    _log.warning("task %s was erased; files that arrived since are removed", task_id)
    request = ErasureRequest(task_id=task_id, requested_at=engine.now(), by=receipt.by, reason=receipt.reason)
    engine.workspace.files.create(erasure_path(task_id), request.model_dump_json().encode())
    engine.tasks.schedule.set(f"{ERASE_PREFIX}{task_id}")
    engine.workspace.files.delete(open_marker_path(task_id))
    return True


def rebuild(engine: Engine, task_id: str) -> None:
    """Rebuild the task in Redis from its workspace. Another worker may do so at the same time: one of them creates it.

    Raise CorruptHistory if the history is missing or its digests do not match.
    """
    lines = list(engine.workspace.histories.lines(task_id))
    if not lines:
        raise CorruptHistory(f"task {task_id!r} has no history in its workspace, though it was accepted")
    verify_chain(lines)
    steps = [parse_step(line) for line in lines]
    event = StreamReset(task_id=task_id, timestamp=engine.now(), steps=len(steps))
    state = fold(steps, task_id)
    reopen(engine.workspace, task_id)
    stored = engine.workspace.files.get(summary_path(task_id))
    before = None if stored is None else parse_summary(stored)
    restore_inbox(engine, task_id)  # first: a worker that finds the task in Redis must find its items
    archived_epoch = 0 if before is None else before.epoch
    engine.tasks.task_store.create(task_id, steps, state, [event], archived_epoch)
    engine.tasks.schedule.set(task_id, engine.policy.redelivery_delay)


def restore_inbox(engine: Engine, task_id: str, known_ids: Collection[str] = ()) -> bool:
    """Add the items of the workspace's inbox to the inbox in Redis, which may have lost them.

    Return True if any exist, except those in `known_ids`. Do nothing for a closed task. Remove items that were applied:
    the store has carried out their write once more, or the worker that applied them died before it removed them. Cost:
    a LIST of the inbox, and a GET for each item, several at the same time.
    """
    names = (name.removesuffix(".json") for name in engine.workspace.files.names(inbox_path(task_id)))
    item_ids = [item_id for item_id in names if item_id not in known_ids]
    if item_ids and engine.workspace.summaries.is_closed(task_id):
        return False
    applied = engine.workspace.files.get_many([applied_path(task_id, item_id) for item_id in item_ids])
    for item_id in (item_id for item_id, data in zip(item_ids, applied, strict=True) if data is not None):
        engine.workspace.files.delete(item_path(task_id, item_id))
    waiting = [item_id for item_id, data in zip(item_ids, applied, strict=True) if data is None]
    engine.tasks.task_store.add_items(task_id, waiting)
    return bool(waiting)


def reset_logs(engine: Engine, task_id: str) -> None:
    """Start a new generation of the task's logs. For an ended task, repeat its end for clients that missed it."""
    while (task := engine.tasks.task_store.load(task_id, 1)) is not None:
        events: list[AnyEvent] = [StreamReset(task_id=task_id, timestamp=engine.now(), steps=task.position.seq)]
        if task.position.phase is Phase.END:
            events.append(end_event(engine, task_id, task.state, task.position.status, task.position.reason))
        if engine.tasks.task_store.reset_logs(task_id, task.position.epoch, events):
            return


def end_event(engine: Engine, task_id: str, state: TaskState, status: TaskStatus, reason: str) -> TaskEnded:
    """Return the event of the task's end."""
    usage = {"tokens_in": state.tokens_in, "tokens_out": state.tokens_out, "steps": state.steps, "cost": state.cost}
    return TaskEnded(
        task_id=task_id, timestamp=engine.now(), status=status, reason=reason, usage=usage, agents=state.agents
    )


def reopen(workspace: WorkspaceRecords, task_id: str) -> None:
    """Reopen the task if a worker began to close it, and Redis does not have its end."""
    marker = workspace.files.get_versioned(open_marker_path(task_id))
    if marker is not None and marker.data not in (OPENED, CLOSED):
        workspace.files.replace(open_marker_path(task_id), OPENED, marker.version)


def catch_up(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Apply the steps of the workspace that Redis lacks. Return True if there were any."""
    epoch, state, before = task.position.epoch, task.state, task.steps.tail[-1]
    moved = False
    for step in engine.workspace.histories.read(task_id, task.position.seq):
        state = state_after(state, step)
        if not moved:
            report_attempts(engine.services.dispatcher, task_id, task, step)
        if moved:
            events = step_events(engine, task_id, step, before, _unpublished_results(step, {}))
        else:
            events = events_on_apply(engine, task_id, task, step, _unpublished_results(step, task.calls))
        if not engine.tasks.task_store.commit(task_id, epoch, Commit(step, state, events)):
            return True
        epoch, before, moved = epoch + 1, step, True
    return moved


def _unpublished_results(step: TaskStep, calls: Mapping[str, CallState]) -> list[ToolOutcome]:
    """Return the results of the step that no tools worker has reported."""
    published = {call_id for call_id, call in calls.items() if call.outcome and not needs_resolution(call.outcome)}
    return [ToolOutcome(result=result) for result in step.results if result.tool_call_id not in published]


def events_on_apply(
    engine: Engine, task_id: str, task: Snapshot, step: TaskStep, unpublished_results: Sequence[ToolOutcome] = ()
) -> list[AnyEvent]:
    """Return the events for followers when the step is applied to a task in this state.

    If the step replaces a turn, the text of that turn is void. A task that has waited is running again.
    """
    now = engine.now()
    events: list[AnyEvent] = []
    if not step.by_agent and task.position.phase is Phase.TURN and task.attempt.claimed:
        events.append(
            TurnRestarted(
                task_id=task_id,
                timestamp=now,
                step_id=step_id_at(task_id, task.position.seq),
                attempt=task.attempt.number + 1,
                reason="another step replaces the turn, because its worker did not finish it",
                replaced=True,
            )
        )
    if task.position.reason or task.position.status is not TaskStatus.RUNNING:
        by = step.metadata.get("by")
        events.append(StatusChanged(task_id=task_id, timestamp=now, status=TaskStatus.RUNNING, reason="", by=by))
    return [*events, *step_events(engine, task_id, step, task.steps.tail[-1], unpublished_results)]


def step_events(
    engine: Engine, task_id: str, step: TaskStep, before: TaskStep, unpublished_results: Sequence[ToolOutcome] = ()
) -> list[AnyEvent]:
    """Return the events of a step that is applied. `unpublished_results` are results without an event so far."""
    now, step = engine.now(), step.shown
    names = {call.id: call.tool_name for call in before.calls}
    events: list[AnyEvent] = [
        ToolCalled(task_id=task_id, timestamp=now, step_id=step.step_id, agent_name=step.agent_name, tool_call=call)
        for call in step.calls
    ]
    if step.begins_function:  # a turn of a model has them before its step
        about = step.metadata["routing"], step.metadata.get(HANDED_OFF_BY)
        events = [*selection(task_id, now, step.step_id, step.agent_name, *about), *events]
    for outcome in unpublished_results:
        name = names.get(outcome.result.tool_call_id, "")
        events.append(ToolReturned(task_id=task_id, timestamp=now, tool_name=name, tool_result=outcome.result))
    by = step.metadata.get("by")
    if step.agent_name == USER:
        events.append(UserMessageAdded(task_id=task_id, timestamp=now, step_id=step.step_id, text=step.text, by=by))
    events.append(StepEnded(task_id=task_id, timestamp=now, step=step))
    stopped = step.agent_name == ORCHESTRATOR and "item_id" in step.metadata and step.error is not None
    if stopped or step.is_interruption or (step.agent_name == USER and step.metadata.get("interrupts")):
        reason = step.error.message if step.error is not None else step.text[:500]
        item_id, receipt = str(step.metadata["item_id"]), before.metadata.get("receipt") or {}
        events.append(
            UserInterrupted(task_id=task_id, timestamp=now, reason=reason, item_id=item_id, by=by, receipt=receipt)
        )
    return events


def selection(
    task_id: str, now: datetime, step_id: str, agent: str, routing: Mapping[str, Any], source: str | None
) -> Iterator[AnyEvent]:
    """Yield the events of the choice of the agent for this step. `source` is the agent that has handed over to it."""
    reason = str(routing["reason"])
    if source is not None:
        yield AgentHandedOff(task_id=task_id, timestamp=now, from_agent=source, to_agent=agent, reason=reason)
    yield AgentSelected(
        task_id=task_id, timestamp=now, agent_name=agent, step_id=step_id, reason=reason, routing=dict(routing)
    )
