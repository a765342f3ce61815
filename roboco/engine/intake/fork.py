"""fork: submit a new task with the first steps of another task.

    source's lines ─► team.json ─► lineage.json ─► history ─► artifacts ─► inbox ─► task.json ─► marker ══ accepted
                      (create)     (create)        (begin)    (create)     (create)  (create)     (put)

The steps are copied byte by byte, so their digests prove their origin. The source is only read. If the client dies
before the marker is written, no worker reads the files, and the same fork, sent again, completes them. If the client
dies after that, the sweeper finds the marker and starts the task.
"""

from dataclasses import dataclass

from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.history.lineage import Fork, kept
from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import check_task_id, tenant_of
from roboco.domain.inbox.item import Message
from roboco.domain.paths import (
    OPENED,
    artifact_info_path,
    artifact_path,
    history_summaries_path,
    item_path,
    lineage_path,
    open_path,
    summary_path,
)
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import store_team
from roboco.engine.intake.accept import check_same, stored
from roboco.engine.intake.accept_task import falling_back_to_sweeper
from roboco.engine.record import recover
from roboco.engine.record.summaries import known_summary
from roboco.errors import UsageError


@dataclass(frozen=True)
class ForkOrder:
    """A request to make a new task of the first steps of another one."""

    source: str
    """The id of the task that is forked."""
    task_id: str
    """The id of the new task."""
    seq: int | None = None
    """The position of the last copied step; None for the newest one."""
    message: Message | None = None
    """The first message of the new task."""
    team: Team | None = None
    """The team of the new task; None for the source's team."""
    model: str | None = None
    """The model profile of all agents; None for those of the team."""


def fork(engine: Engine, order: ForkOrder) -> None:
    """Accept the fork and wake a coordinator. A repetition changes nothing.

    Raise UsageError if the source is unknown or has no such step, or if the task id has other content already.
    """
    if tenant_of(check_task_id(order.source)) != tenant_of(order.task_id):
        raise UsageError(f"task {order.source!r} can be forked for its own tenant only, not as {order.task_id!r}")
    task_id = check_task_id(order.task_id)
    if order.source == task_id:
        raise _taken(order)
    steps = list(engine.histories.read(order.source))
    if not steps or engine.files.get(summary_path(order.source)) is None:
        raise UsageError(f"no task {order.source!r} in this workspace")
    steps = kept(steps, _seq(engine, order))
    team = order.team or engine.teams.get(order.source)
    team = team if order.model is None else team.with_profile(order.model)
    team.check_agent(None if order.message is None else order.message.agent)
    engine.board.load(task_id, 1)  # raise TransientError before anything is stored if Redis does not answer
    _store(engine, order, team, steps)
    if _summary(engine, task_id, team, steps).status.ended:
        return
    engine.files.create(open_path(task_id), OPENED)
    with falling_back_to_sweeper(task_id):
        if recover.load(engine, task_id) is not None:
            engine.dispatcher.advance(task_id)


def _seq(engine: Engine, order: ForkOrder) -> int | None:
    """Return the position at which to fork. A repetition without one forks where the first request did.

    The source may have got further steps since.
    """
    before = engine.files.get(lineage_path(order.task_id)) if order.seq is None else None
    return order.seq if before is None else Fork.model_validate_json(before).seq


def _store(engine: Engine, order: ForkOrder, team: Team, steps: list[TaskStep]) -> None:
    if not store_team(engine.files, order.task_id, team):
        raise _taken(order)
    _store_lineage(engine, order, steps[-1].seq)
    if not engine.histories.begin(order.task_id, [step.line().encode() for step in steps]):
        raise _taken(order)
    for artifact in (artifact for step in steps for artifact in step.artifacts):
        _copy(engine, order, artifact.name)
    _copy_summaries(engine, order, len(steps))
    if order.message is not None:
        _store_message(engine, order.task_id, order.message)


def _store_message(engine: Engine, task_id: str, message: Message) -> None:
    before = stored(engine, task_id, message.item_id)
    if before is None:
        engine.files.create(item_path(task_id, message.item_id), message.model_dump_json().encode())
    else:
        check_same(message, before)


def _store_lineage(engine: Engine, order: ForkOrder, seq: int) -> None:
    said = None if order.message is None else order.message.model_dump(mode="json", exclude={"created_at"})
    digest = "" if said is None else sha256(canonical(said))
    lineage = Fork(task_id=order.source, seq=seq, created_at=engine.now(), message=digest)
    before = engine.files.get(lineage_path(order.task_id))
    if before is None:
        engine.files.create(lineage_path(order.task_id), lineage.model_dump_json().encode())
    elif Fork.model_validate_json(before).model_copy(update={"created_at": lineage.created_at}) != lineage:
        raise _taken(order)


def _taken(order: ForkOrder) -> UsageError:
    return UsageError(f"task id {order.task_id!r} has other content already; choose another id")


def _copy(engine: Engine, order: ForkOrder, name: str) -> None:
    """Copy an artifact and its description, unless that is done. Raise UsageError if another one was uploaded."""
    info = engine.files.get(artifact_info_path(order.source, name))
    if info is not None and not engine.files.create(artifact_info_path(order.task_id, name), info):
        known = Artifact.model_validate_json(engine.files.get(artifact_info_path(order.task_id, name)) or b"")
        if known.sha256 != Artifact.model_validate_json(info).sha256:
            raise UsageError(
                f"task {order.task_id!r} has another file {name!r} than its source; upload it under another name"
            )
    source, target = (artifact_path(task_id, name) for task_id in (order.source, order.task_id))
    if engine.files.size(target) != engine.files.size(source):
        engine.files.copy(source, target)


def _copy_summaries(engine: Engine, order: ForkOrder, steps: int) -> None:
    """Copy the summaries of the copied steps, so that no model call makes them again."""
    for name in engine.files.names(history_summaries_path(order.source)):
        if int(name[:8]) <= steps:
            folders = (history_summaries_path(order.source), history_summaries_path(order.task_id))
            engine.files.copy(*(f"{folder}{name}" for folder in folders))


def _summary(engine: Engine, task_id: str, team: Team, steps: list[TaskStep]) -> TaskSummary:
    now = engine.now()
    summary = TaskSummary(
        task_id=task_id,
        team=team.name,
        status=TaskStatus.QUEUED,
        steps=len(steps),
        created_at=now,
        updated_at=now,
    )
    if engine.files.create(summary_path(task_id), summary.model_dump_json().encode()):
        return summary
    return known_summary(engine, task_id)
