"""fork: submit a new task with the first steps of another task, or continue a failed task in a new one: a retry.

    source's lines ─► team.json ─► lineage.json ─► history ─► artifacts ─► inbox ─► task.json ─► marker ══ accepted
                      (create)     (create)        (create)   (create)     (create)  (create)     (create)

A run of `what-if` is a fork whose team has a rule, and which has a record of tool results after its lineage.

The steps are copied byte by byte, so their digests prove their origin. The source is only read. If the client dies
before the marker is written, no worker reads the files, and the same fork, sent again, completes them. If the client
dies after that, the sweeper finds the marker and starts the task.

A retry:

    failed, no marker ─► lineage.json ─► history: its steps, retry ─► task.json ─► retried_as ─► marker ══ accepted ══►
    (get)                (create)        (create)                     (create)     (replace)     (create)

It is a fork with all steps of a failed task and one more, whose receivers are notified of the new task, too. Its id is
derived from the failed task and its end. So each end has one retry: of several at the same time, the first to store its
lineage decides on reason, limits and caller, and all of them complete it.

If the client dies before the marker, nothing is accepted, and the next retry, of any caller, completes this one. If it
dies after that, or if Redis or the broker fails then, the sweeper starts the task. The failed task has ended: nothing
of it changes but the field of its summary that names the retry.
"""

from dataclasses import dataclass

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.decision.budget import limit_reached
from roboco.domain.history.lineage import Fork, Retry, fork_prefix, parent_of
from roboco.domain.history.part import Artifact
from roboco.domain.history.recorded_calls import RecordedCalls
from roboco.domain.history.state import fold, state_after
from roboco.domain.history.step import LIMIT, TaskStep
from roboco.domain.ids import MAX_FORK_CHARS, check_no_run_id, check_task_id, retry_id, tenant_of
from roboco.domain.inbox.item import UserMessage
from roboco.domain.limits import LimitOverrides
from roboco.domain.paths import (
    OPENED,
    artifact_info_path,
    artifact_path,
    fork_name_path,
    history_summaries_path,
    item_path,
    lineage_path,
    open_marker_path,
    recorded_calls_path,
    summary_path,
)
from roboco.domain.session.session import title_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary, entry_of, parse_summary
from roboco.domain.team.team import Team
from roboco.engine import notifications as notify
from roboco.engine.accept import early_files
from roboco.engine.accept.accept_item import check_idempotent, stored_item
from roboco.engine.accept.checks import check_capacity, check_limits, falling_back_to_sweeper
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record import recover
from roboco.engine.record.closed import closed_summary
from roboco.engine.task_entries import put_entry
from roboco.engine.workspace_records import check_not_erased, check_not_erasing
from roboco.errors import CorruptHistory, Forbidden, StateConflict, UsageError
from roboco.ports.memories import change_record


@dataclass(frozen=True)
class ForkRequest:
    """A request to make a new task of the first steps of another one."""

    source: str
    """The id of the task that is forked."""
    task_id: str
    """The id of the new task."""
    seq: int | None = None
    """The position of the last copied step; None for the newest one."""
    message: UserMessage | None = None
    """The first message of the new task."""
    team: Team | None = None
    """The team of the new task; None for the source's team."""
    model: str | None = None
    """The model profile of all agents; None for those of the team."""
    by: str | None = None
    """The identity of the caller."""
    recorded: RecordedCalls | None = None
    """The results with which the calls of a run of `what-if` are answered; None for any other fork."""
    retry: Retry | None = None
    """The record of a retry, whose source has failed and is closed; None for any other fork."""


def fork(engine: Engine, request: ForkRequest) -> bool:
    """Accept the fork and wake a coordinator. A repetition changes nothing.

    Return True if this call has stored the task's summary: of several at the same time, one has.
    Raise UsageError if the source is unknown or has no such step, or if the task id has other content already.
    """
    if tenant_of(check_task_id(request.source)) != tenant_of(request.task_id):
        raise Forbidden(f"task {request.source!r} can be forked for its own tenant only, not as {request.task_id!r}")
    task_id = check_task_id(request.task_id)
    if request.source == task_id:
        raise _id_taken(request)
    steps = list(engine.workspace.histories.read(request.source))
    if not steps or engine.workspace.files.get(summary_path(request.source)) is None:
        raise engine.workspace.summaries.missing(request.source)
    if request.retry is None:
        steps = fork_prefix(steps, _fork_position(engine.workspace, request))
    team = request.team or engine.workspace.frozen_teams.get(request.source)
    team = team if request.model is None else team.with_profile(request.model)
    _check_team(request, team)
    check_capacity(engine, task_id)
    engine.tasks.task_store.load(task_id, 1)  # raise TransientError before anything is stored if Redis does not answer
    check_not_erased(engine.workspace.files, task_id)
    _check_id(engine.workspace, request)
    # an erasure of the source finds the fork by this name
    engine.workspace.files.create(fork_name_path(request.source, task_id), b"")
    check_not_erasing(engine.workspace.files, request.source)
    early_files.take(engine, task_id, request.by)
    steps = _store_files(engine, request, team, steps)
    summary, is_created = _store_summary(engine, request, team, steps)
    if request.retry is not None:
        _name_retry(engine.workspace, request)
    if summary.status.ended:
        return False
    engine.workspace.files.create(open_marker_path(task_id), OPENED)
    with falling_back_to_sweeper(task_id):
        if recover.load_task(engine, task_id) is not None:
            engine.services.dispatcher.advance(task_id)
    put_entry(engine.tasks, entry_of(summary))
    return is_created


def _check_id(workspace: WorkspaceRecords, request: ForkRequest) -> None:
    """Raise StateConflict if another task than a fork of the source has the id: the source must not name that one."""
    is_taken = workspace.files.get(summary_path(request.task_id)) is not None  # a fork stores it after its lineage
    before = workspace.files.get(lineage_path(request.task_id))
    if is_taken if before is None else Fork.model_validate_json(before).task_id != request.source:
        raise _id_taken(request)


def _check_team(request: ForkRequest, team: Team) -> None:
    """Raise UsageError if the team lacks an agent that the message names."""
    if request.message is not None:
        team.check_message(request.message.agent, request.message.attachments)
    if request.recorded is not None:
        return
    check_no_run_id(request.task_id)
    if len(request.task_id) > MAX_FORK_CHARS:
        raise UsageError(f"task id {request.task_id!r} is too long for a fork: use {MAX_FORK_CHARS} characters at most")
    if team.what_if is not None:
        raise UsageError(f"task {request.source!r} is a run of what-if; to fork it as a task, name its team again")


def _fork_position(workspace: WorkspaceRecords, request: ForkRequest) -> int | None:
    """Return the position at which to fork. A repetition without one forks where the first request did."""
    before = workspace.files.get(lineage_path(request.task_id)) if request.seq is None else None
    return request.seq if before is None else Fork.model_validate_json(before).seq


def _store_files(engine: Engine, request: ForkRequest, team: Team, steps: list[TaskStep]) -> list[TaskStep]:
    """Store all files up to the summary, and return the first steps of the fork."""
    if not engine.workspace.frozen_teams.freeze(request.task_id, team):
        raise _id_taken(request)
    lineage = _store_lineage(engine, request, steps[-1].seq)
    if lineage.retry is not None:
        steps = [*steps, lineage.retry_step(request.task_id, steps[-1])]
        _copy_targets(engine.workspace, request)
    _store_recorded_calls(engine.workspace, request)
    if not engine.workspace.histories.create(request.task_id, [step.line().encode() for step in steps]):
        raise _id_taken(request)
    for artifact in (artifact for step in steps for artifact in step.artifacts):
        _copy_artifact(engine.workspace, request, artifact.name)
    _copy_summaries(engine.workspace, request, len(steps))
    if request.message is not None:
        _store_message(engine.workspace, request.task_id, request.message)
    return steps


def _copy_targets(workspace: WorkspaceRecords, request: ForkRequest) -> None:
    """Let the retry notify the receivers of its source.

    Those of a canvas, which has failed for good, and of A2A, whose clients do not know the retry, are left out.
    """
    targets = notify.submitted_targets(workspace, request.source)
    kept = [target for target in targets if not target.continuation]
    notify.store_targets(workspace, request.task_id, kept)


def _name_retry(workspace: WorkspaceRecords, request: ForkRequest) -> None:
    """Name the retry in the summary of its source. The retry is accepted after that, so no accepted one is unnamed."""

    def parsed(data: bytes | None) -> TaskSummary:
        summary = None if data is None else parse_summary(data)
        return summary or workspace.summaries.require(request.source)

    named = {"retried_as": request.task_id}
    change_record(
        workspace.files, summary_path(request.source), parsed, lambda summary: summary.model_copy(update=named)
    )


def _store_recorded_calls(workspace: WorkspaceRecords, request: ForkRequest) -> None:
    """Store the record of a run, and copy the files that its results refer to. The first stored record counts."""
    if request.recorded is None:
        return
    workspace.files.create(recorded_calls_path(request.task_id), request.recorded.model_dump_json().encode())
    outcomes = (outcome for equal in request.recorded.outcomes.values() for outcome in equal)
    for name in {artifact.name for outcome in outcomes for artifact in outcome.artifacts}:
        if workspace.files.size(artifact_path(request.source, name)) is not None:
            _copy_artifact(workspace, request, name)


def _store_message(workspace: WorkspaceRecords, task_id: str, message: UserMessage) -> None:
    before = stored_item(workspace, task_id, message.item_id)
    if before is None:
        workspace.files.create(item_path(task_id, message.item_id), message.model_dump_json().encode())
    else:
        check_idempotent(message, before)


def _store_lineage(engine: Engine, request: ForkRequest, seq: int) -> Fork:
    """Store the lineage, and return the stored one: of several retries at the same time, the first counts."""
    content = None if request.message is None else request.message.model_dump(mode="json", exclude={"created_at", "by"})
    digest = "" if content is None else sha256(canonical_json(content))
    lineage = Fork(
        task_id=request.source, seq=seq, created_at=engine.now(), message=digest, by=request.by, retry=request.retry
    )
    if engine.workspace.files.create(lineage_path(request.task_id), lineage.model_dump_json().encode()):
        return lineage
    before = Fork.model_validate_json(engine.workspace.files.get(lineage_path(request.task_id)) or b"")
    first = {"created_at": before.created_at, "by": before.by, "retry": before.retry}
    if before != lineage.model_copy(update=first) or (before.retry is None) != (request.retry is None):
        raise _id_taken(request)
    return before


def _id_taken(request: ForkRequest) -> StateConflict:
    return StateConflict(f"task id {request.task_id!r} has other content already; choose another id")


def _copy_artifact(workspace: WorkspaceRecords, request: ForkRequest, name: str) -> None:
    """Copy an artifact and its description, unless that is done. Raise UsageError if another one was uploaded."""
    info = workspace.files.get(artifact_info_path(request.source, name))
    if info is not None and not workspace.files.create(artifact_info_path(request.task_id, name), info):
        known = Artifact.model_validate_json(workspace.files.get(artifact_info_path(request.task_id, name)) or b"")
        if known.sha256 != Artifact.model_validate_json(info).sha256:
            raise StateConflict(
                f"task {request.task_id!r} has another file {name!r} than its source; upload it under another name"
            )
    source, target = (artifact_path(task_id, name) for task_id in (request.source, request.task_id))
    if workspace.files.size(target) != workspace.files.size(source):
        workspace.files.copy(source, target)


def _copy_summaries(workspace: WorkspaceRecords, request: ForkRequest, steps: int) -> None:
    """Copy the summaries of the copied steps, so that no model call makes them again."""
    for name in workspace.files.names(history_summaries_path(request.source)):
        if int(name[:8]) <= steps:
            folders = (history_summaries_path(request.source), history_summaries_path(request.task_id))
            workspace.files.copy(*(f"{folder}{name}" for folder in folders))


def _store_summary(engine: Engine, request: ForkRequest, team: Team, steps: list[TaskStep]) -> tuple[TaskSummary, bool]:
    """Store the summary unless there is one. Return the stored one, and True if it is this one."""
    task_id, now = request.task_id, engine.now()
    summary = TaskSummary(
        task_id=task_id,
        team=team.name,
        title=title_of(steps[0]),
        status=TaskStatus.QUEUED,
        retry_of="" if request.retry is None else request.source,
        steps=len(steps),
        created_at=now,
        updated_at=now,
    )
    if engine.workspace.files.create(summary_path(task_id), summary.model_dump_json().encode()):
        return summary, True
    return engine.workspace.summaries.require(task_id), False


def retry_task(engine: Engine, task_id: str, retry: Retry, by: str | None = None, from_step: int | None = None) -> bool:
    """Continue the failed task in a new one. Return True if this call has created that one. A repetition is harmless.

    Raise NotFound if there is no such task. Raise StateConflict if it has not failed, is a sub-task, would reach a
    limit again, or was retried with another reason or other limits, or if `from_step` is not its last good step. Raise
    TransientError if its end is not complete after some seconds.

    Cost: that of a fork, and one more read of the whole history.
    """
    summary = closed_summary(engine, check_task_id(task_id))
    if summary.status is not TaskStatus.FAILED:
        remedy = "fork it to continue from one of its steps" if summary.status.ended else "there is nothing to retry"
        raise StateConflict(f"task {task_id!r} has not failed, it is {summary.status}; {remedy}")
    check_limits(engine.workspace, task_id, LimitOverrides.model_validate(retry.limits))
    new_id = retry_id(task_id, summary.steps)
    lineage = Fork(task_id=task_id, seq=summary.steps - 1, created_at=engine.now(), by=by, retry=retry)
    steps = list(engine.workspace.histories.read(task_id))
    if len(steps) != summary.steps or not steps[-1].ends_task:
        raise CorruptHistory(f"task {task_id!r} has failed, but its last step, of {len(steps)}, holds no error")
    _check_retryable(engine.workspace, steps, lineage, from_step)
    created = fork(engine, ForkRequest(task_id, new_id, by=by, retry=retry))
    first = engine.workspace.frozen_teams.fork_of(new_id)
    if first is not None and first.retry != retry.model_copy(update={"item_id": first.retry and first.retry.item_id}):
        raise StateConflict(
            f"task {task_id!r} was retried {f'by {first.by} ' if first.by else ''}at "
            f"{first.created_at:%Y-%m-%d %H:%M:%S} UTC, for another reason or with other limits, as {new_id!r}"
        )
    return created


def _check_retryable(workspace: WorkspaceRecords, steps: list[TaskStep], lineage: Fork, from_step: int | None) -> None:
    """Raise StateConflict if the task is a sub-task, would reach a limit again, or has another last good step."""
    task_id, last = lineage.task_id, steps[-1]
    if (parent := parent_of(task_id, steps[0])) is not None:
        raise StateConflict(
            f"task {task_id!r} is a sub-task, and task {parent.task_id!r} has its result already: retry that task if "
            "it has failed, or fork this one"
        )
    if from_step not in (None, last.seq - 1):
        raise StateConflict(
            f"task {task_id!r} continues from step {last.seq - 1}, its last good one, and not from {from_step}; "
            f"roboco fork {task_id} --seq {from_step} continues from there"
        )
    state = state_after(fold(steps), lineage.retry_step(task_id, last))
    limits = workspace.frozen_teams.get(task_id).limits.with_overrides(state.limit_overrides)
    agent = last.agent_name if last.by_agent else str(last.metadata.get(LIMIT) or "")
    reached = limit_reached(limits, state, agent, seconds=0.0) if limits.at_limit == "end" else None
    if reached is not None:
        raise StateConflict(
            f"task {task_id!r} would fail again: {reached}; name a higher limit with the retry, as in "
            f"Task.retry(max_steps=...) or roboco retry {task_id} --max-steps N"
        )
