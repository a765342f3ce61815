"""accept_task: accept a submitted task.

    team.json ─► notify.json ─► first step ─► task.json ─► schedule ─► marker ══ accepted ══► Redis ─► wake-up message
    (create)     (create)       (append)      (create)     (put)       (create)               (create)

If messages are imported, they and the prompt are the first steps: one create of the whole history stores them.

Every write is a create that fails if the file exists, or is idempotent. So a repetition of the submission continues
where the first one stopped, and two clients that submit the same task at the same time store it once.

If the client dies before the marker is written, only files remain that no worker reads. Nothing was accepted. The same
submission, sent again, completes them. If the client dies after the marker, or if Redis or the broker fails then, the
sweeper finds the marker, loads the task into Redis and starts it. The schedule's entry precedes the marker, so that the
sweeper finds the task after one redelivery delay, and not only when it fills the schedule again.

This module accepts the task. `coordinate/submit.py` also starts the first turn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from roboco.domain.history.lineage import Parent
from roboco.domain.history.state import fold
from roboco.domain.history.step import STATE, TaskStep
from roboco.domain.ids import check_no_run_id, check_task_id
from roboco.domain.inbox.submission import Submission, first_steps
from roboco.domain.paths import OPENED, open_marker_path, summary_path
from roboco.domain.prompt.typed_answer import mistake_in_output
from roboco.domain.session.session import title_of
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, StepEnded, StreamReset, TaskStarted, UserMessageAdded
from roboco.domain.task_summary import TaskSummary, entry_of
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import TaskTool
from roboco.engine import notifications as notify
from roboco.engine.accept import early_files
from roboco.engine.accept.checks import check_attachments, check_capacity, falling_back_to_sweeper
from roboco.engine.engine import Engine, Services, WorkspaceRecords
from roboco.engine.prompt import render_prompt
from roboco.engine.record.recover import erase_again, restore_inbox
from roboco.engine.task_entries import put_entry
from roboco.engine.workspace_records import check_not_erased
from roboco.errors import StateConflict, UsageError
from roboco.ports.telemetry import Operation
from roboco.templates.templates import TEAM_SECONDS, JinjaPrompts, is_too_early


@dataclass(frozen=True)
class AcceptedTask:
    """A task that is accepted and has not ended."""

    task_id: str
    team: Team
    steps: tuple[TaskStep, ...]
    """Its first steps, as stored: imported ones, and the prompt."""
    is_known: bool
    """True if an earlier submission has stored them."""


def accept_and_wake(
    engine: Engine,
    submission: Submission,
    team: Team,
    parent: Parent | None = None,
    start: Callable[[Engine, AcceptedTask], bool] | None = None,
) -> bool:
    """Accept the task, load it into Redis and wake a coordinator, which starts it, unless `start` has done that.

    When this returns, the task will end or wait, whatever fails. A repetition of the submission changes nothing.
    Return True if this call has stored the first step: of several at the same time, one has.
    Raise UsageError if the submission is wrong, or if the task id has other content already. Raise Overloaded if too
    many turns are queued, and TransientError if a server fails before the acceptance: the client sends the submission
    again.
    """
    with engine.services.telemetry.operation(Operation("submit", check_task_id(submission.task_id))):
        accepted = _accept_task(engine, submission, team, parent)
        if accepted is None:
            return False
        with falling_back_to_sweeper(accepted.task_id):
            if start is not None and start(engine, accepted):
                return not accepted.is_known
            _load_into_redis(engine, accepted)
            engine.services.dispatcher.advance(accepted.task_id)
        put_entry(engine.tasks, entry_of(_first_summary(accepted.task_id, accepted.team, accepted.steps)))
        return not accepted.is_known


def _accept_task(engine: Engine, submission: Submission, team: Team, parent: Parent | None) -> AcceptedTask | None:
    """Store the task up to its open marker. Return it, or None if it was accepted earlier and has ended."""
    task_id = check_task_id(submission.task_id)
    if parent is None:
        check_no_run_id(task_id)
    if submission.model is not None:
        team = team.with_profile(submission.model)
    team.check_message(submission.agent, submission.metadata())
    if submission.artifacts:
        early_files.take(engine, task_id, submission.by)
    artifacts = check_attachments(engine, task_id, submission)
    steps = first_steps(submission, team, parent, artifacts, engine.now())
    check_prompts(team, task_id, steps[0])
    _check_schemas(engine.services, team)
    engine.tasks.task_store.load(task_id, 1)  # raise TransientError before anything is stored if Redis does not answer
    check_not_erased(engine.workspace.files, task_id)
    if parent is None:
        check_capacity(engine, task_id)
    _store_team(engine.workspace, task_id, team)
    notify.store_targets(engine.workspace, task_id, submission.notify)
    stored = _store_steps(engine.workspace, task_id, steps)
    if stored[0].metadata.get("submission") != submission.digest():
        raise StateConflict(
            f"task id {task_id!r} was submitted before with another prompt or context; choose another id"
        )
    if _store_summary(engine.workspace, task_id, team, stored).status.ended:
        return None
    early_files.take(engine, task_id, stored[-1].metadata.get("by"))
    _store_marker(engine, task_id)
    return AcceptedTask(task_id, team, stored, is_known=stored[0].digest != steps[0].digest)


def _load_into_redis(engine: Engine, accepted: AcceptedTask) -> None:
    """Load the task with its first steps, unless Redis has it already, or it has further steps."""
    events, task_id = prepare_load(engine, accepted), accepted.task_id
    if events is None or engine.tasks.task_store.create(task_id, accepted.steps, fold(accepted.steps), events):
        return
    if engine.tasks.task_store.load(task_id, 1) is None and erase_again(engine, task_id):
        raise engine.workspace.summaries.missing(task_id)


def prepare_load(engine: Engine, accepted: AcceptedTask) -> list[AnyEvent] | None:
    """Restore the task's inbox, and return its first events, or None if it has further steps than its first ones.

    Followers read imported steps from the history. The history is not read for further steps if this submission has
    just stored the first one: a coordinator that has appended one since has the task in Redis. If Redis has lost it
    since, the first conflict shows that Redis is behind the workspace.
    """
    task_id, steps = accepted.task_id, accepted.steps
    restore_inbox(engine, task_id)
    if accepted.is_known and next(engine.workspace.histories.read(task_id, len(steps)), None) is not None:
        return None
    events = _first_events(engine, task_id, accepted.team, steps[-1])
    if accepted.is_known or len(steps) > 1:  # followers may hold text that Redis has lost
        events.insert(0, StreamReset(task_id=task_id, timestamp=engine.now(), steps=len(steps) - 1))
    return events


def check_prompts(team: Team, task_id: str, first: TaskStep) -> None:
    """Render the prompt of each agent. Raise UsageError if a template names a variable that the task lacks."""
    prompts = JinjaPrompts(TEAM_SECONDS)
    shared = {"output": {}, "state": first.metadata.get(STATE) or {}}
    for agent in team.agents:
        try:
            render_prompt(prompts, team, agent, task_id, first, shared)
        except UsageError as error:
            if is_too_early(error):
                continue  # no agent or tool has acted
            raise UsageError(f"prompt of agent {agent.name!r}: {error}") from error


def _check_schemas(services: Services, team: Team) -> None:
    """Raise UsageError if a JSON Schema of an agent's output or of a Celery task's arguments is refused."""
    for tool in team.tools:
        if isinstance(tool, TaskTool) and (mistake := services.toolbox.schema_error(tool.parameters)):
            raise UsageError(f"parameters of tool {tool.name!r}: {mistake}")
    for agent in team.agents:
        if isinstance(agent.output, dict) and (
            mistake := mistake_in_output(agent.output, services.toolbox.schema_error)
        ):
            raise UsageError(f"output of agent {agent.name!r}: {mistake}")


def _store_steps(workspace: WorkspaceRecords, task_id: str, steps: tuple[TaskStep, ...]) -> tuple[TaskStep, ...]:
    """Store the first steps, unless some are stored already. Return the stored ones."""
    if len(steps) == 1:
        return (workspace.histories.append(task_id, steps[0]),)
    if workspace.histories.create(task_id, [step.line().encode() for step in steps]):
        return steps
    return tuple(islice(workspace.histories.read(task_id), len(steps)))


def _store_team(workspace: WorkspaceRecords, task_id: str, team: Team) -> None:
    if not workspace.frozen_teams.freeze(task_id, team):
        raise StateConflict(f"task id {task_id!r} was submitted before with another team; choose another id")


def _store_summary(workspace: WorkspaceRecords, task_id: str, team: Team, steps: tuple[TaskStep, ...]) -> TaskSummary:
    summary = _first_summary(task_id, team, steps)
    if workspace.files.create(summary_path(task_id), summary.model_dump_json().encode()):
        return summary
    return workspace.summaries.require(task_id)


def _store_marker(engine: Engine, task_id: str) -> None:
    """Enter the task in the schedule, and then store its marker: a crash after that is found soon.

    If that takes so long that the entry becomes due before the marker is stored, the sweeper removes the entry. So
    enter the task again then: nothing after the acceptance does before a worker claims the turn.
    """
    delay, begun = engine.policy.redelivery_delay, engine.clock.now()
    engine.tasks.schedule.set(task_id, delay)
    engine.workspace.files.create(open_marker_path(task_id), OPENED)
    if not 0 <= engine.clock.now() - begun < delay / 2:
        with falling_back_to_sweeper(task_id):
            engine.tasks.schedule.schedule_no_later_than(task_id, delay)


def _first_summary(task_id: str, team: Team, steps: tuple[TaskStep, ...]) -> TaskSummary:
    first = steps[0]
    return TaskSummary(
        task_id=task_id,
        team=team.name,
        title=title_of(first),
        status=TaskStatus.QUEUED,
        steps=len(steps),
        created_at=first.created_at,
        updated_at=first.created_at,
    )


def _first_events(engine: Engine, task_id: str, team: Team, prompt: TaskStep) -> list[AnyEvent]:
    now = engine.now()
    return [
        TaskStarted(task_id=task_id, timestamp=now, team=team.name),
        UserMessageAdded(
            task_id=task_id, timestamp=now, step_id=prompt.step_id, text=prompt.text, by=prompt.metadata.get("by")
        ),
        StepEnded(task_id=task_id, timestamp=now, step=prompt),
    ]
