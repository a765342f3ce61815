"""submit: accept a task.

    team.json ─► notify.json ─► first step ─► task.json ─► schedule ─► marker ══ accepted ══► board ─► first turn,
    (create)     (create)       (append)      (create)               (put)                  (create)  or doorbell

A death before the marker leaves files that nobody acts on, and the same submission again goes on with
them. A death after it, or a Redis that fails then, leaves a marker from which the sweeper sets the task up.
"""

import logging
from collections.abc import Callable

from roboco.domain.history.lineage import Parent
from roboco.domain.history.part import Artifact, ArtifactPart, TextPart, brought_by
from roboco.domain.history.priority import PRIORITY
from roboco.domain.history.start_time import ETA, begins_at
from roboco.domain.history.state import fold
from roboco.domain.history.step import USER, TaskStep
from roboco.domain.ids import check_task_id, step_id_at
from roboco.domain.inbox.submission import Submission
from roboco.domain.paths import OPENED, open_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, StepEnded, StreamReset, TaskStarted, UserSpoke
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.engine import notifications as notify
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import store_team
from roboco.engine.intake.send import check_brought
from roboco.engine.prompt import render_prompt
from roboco.engine.record.inbox_items import readd_from_workspace
from roboco.engine.record.summaries import known_summary
from roboco.errors import Overloaded, TransientError, UsageError
from roboco.ports import Work

_log = logging.getLogger(__name__)

Begin = Callable[[Engine, str, Team], bool]
"""Has the first turn of a task made; False if the coordinator has to look at it."""


def ring(engine: Engine, task_id: str, team: Team) -> bool:
    """Leave the first turn to the coordinator."""
    return False


def submit(
    engine: Engine, submission: Submission, team: Team, parent: Parent | None = None, begin: Begin = ring
) -> None:
    """Accept the task: when this returns it will come to an end, whatever fails.

    The same submission again changes nothing. UsageError if the task id has other content already.
    """
    task_id = check_task_id(submission.task_id)
    with engine.telemetry.work(Work("submit", task_id)):
        _submit(engine, submission, team, parent, begin)


def _submit(engine: Engine, submission: Submission, team: Team, parent: Parent | None, begin: Begin) -> None:
    task_id = submission.task_id
    if submission.model is not None:
        team = team.with_profile(submission.model)
    team.check_agent(submission.agent)
    artifacts = check_brought(engine, task_id, submission)
    first = _first_step(engine, submission, parent, artifacts)
    _check_prompts(engine, team, task_id, first)
    engine.board.load(task_id, 1)  # a Redis that does not answer is told before anything is stored
    if parent is None:
        check_room(engine, task_id)
    _store_team(engine, task_id, team)
    notify.keep(engine, task_id, submission.notify)
    stored = engine.histories.append(task_id, first)
    if stored.metadata.get("submission") != submission.digest():
        raise UsageError(f"task id {task_id!r} was submitted before with another prompt or context; choose another id")
    if _summary(engine, task_id, team, stored).status.ended:
        return
    engine.schedule.put(task_id, engine.policy.ring_pause)  # first: a death after it is soon found
    engine.files.create(open_path(task_id), OPENED)
    try:
        new = _set_up(engine, task_id, team, stored, again=stored.digest != first.digest)
        if not (new and begin(engine, task_id, team)):
            engine.dispatcher.advance(task_id)
    except TransientError as error:
        _log.warning("task %s is accepted, and the sweeper will start it: %s", task_id, error)


def check_room(engine: Engine, task_id: str) -> None:
    """Overloaded if so much waits for workers already that no new task is taken; one that is known is no new one."""
    most = engine.policy.max_queued
    if most is None or engine.files.size(summary_path(task_id)) is not None:
        return
    if (waiting := engine.dispatcher.backlog(task_id)) >= most:
        raise Overloaded(
            f"task {task_id!r} is not taken: {waiting} turns wait for workers already, at most {most} may "
            "(ROBOCO_MAX_QUEUED); submit it again later"
        )


def _set_up(engine: Engine, task_id: str, team: Team, first: TaskStep, again: bool) -> bool:
    """Set the task up in Redis; whether nobody had, and it has its first step alone."""
    readd_from_workspace(engine, task_id)
    if next(engine.histories.read(task_id, 1), None) is not None:
        return False
    events = _events(engine, task_id, team, first)
    if again:  # followers may hold what Redis has lost
        events.insert(0, StreamReset(task_id=task_id, timestamp=engine.now(), steps=0))
    return engine.board.create(task_id, [first], fold([first]), events)


def _check_prompts(engine: Engine, team: Team, task_id: str, first: TaskStep) -> None:
    """Render the prompt of each agent. Raise UsageError if a template names a variable that the task lacks."""
    prompts = engine.prompts.sharing()
    for agent in team.agents:
        try:
            render_prompt(prompts, team, agent, task_id, first)
        except UsageError as error:
            raise UsageError(f"prompt of agent {agent.name!r}: {error}") from error


def _first_step(
    engine: Engine, submission: Submission, parent: Parent | None, artifacts: tuple[Artifact, ...]
) -> TaskStep:
    metadata: dict[str, object] = {"submission": submission.digest(), "context": submission.context}
    metadata |= submission.metadata()
    if submission.title is not None:
        metadata["title"] = submission.title
    if submission.priority != "normal":
        metadata[PRIORITY] = submission.priority
    if (begins := begins_at(submission.eta, submission.countdown, engine.now())) is not None:
        metadata[ETA] = begins.isoformat()
    if parent is not None:
        metadata["parent"] = parent.model_dump(mode="json")
    if submission.agent is not None:
        metadata["agent"] = submission.agent
    if submission.notify:
        metadata[notify.NOTIFIES] = len(submission.notify)
    files = (ArtifactPart(artifact=artifact) for artifact in artifacts)
    step = TaskStep(
        step_id=step_id_at(submission.task_id, 0),
        parent_id=None if parent is None else parent.step_id,
        agent_name=USER,
        parts=brought_by((TextPart(text=submission.prompt), *files), step_id_at(submission.task_id, 0)),
        created_at=engine.now(),
        metadata=metadata,
    )
    return step.sealed("")


def _store_team(engine: Engine, task_id: str, team: Team) -> None:
    if not store_team(engine.files, task_id, team):
        raise UsageError(f"task id {task_id!r} was submitted before with another team; choose another id")


def _summary(engine: Engine, task_id: str, team: Team, first: TaskStep) -> TaskSummary:
    summary = TaskSummary(
        task_id=task_id,
        team=team.name,
        status=TaskStatus.QUEUED,
        steps=1,
        created_at=first.created_at,
        updated_at=first.created_at,
    )
    if engine.files.create(summary_path(task_id), summary.model_dump_json().encode()):
        return summary
    return known_summary(engine, task_id)


def _events(engine: Engine, task_id: str, team: Team, first: TaskStep) -> list[AnyEvent]:
    now = engine.now()
    return [
        TaskStarted(task_id=task_id, timestamp=now, team=team.name),
        UserSpoke(task_id=task_id, timestamp=now, step_id=first.step_id, text=first.text),
        StepEnded(task_id=task_id, timestamp=now, step=first),
    ]
