"""message: take in what a user says to a task, and what becomes of it while the team works."""

from typing import Literal

from roboco.domain.history.part import Artifact
from roboco.domain.ids import check_task_id
from roboco.domain.inbox.attachments import Brought
from roboco.domain.inbox.item import Message
from roboco.domain.paths import artifact_info_path, artifact_name, artifact_path, team_path
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import receive, stored
from roboco.errors import UsageError

WhileWorking = Literal["queue", "interrupt", "reject"]
"""What becomes of a message that comes while the team works."""


def send(engine: Engine, task_id: str, message: Message, while_working: WhileWorking | None = None) -> None:
    """Accept the message. UsageError if the task has ended, or works and takes no message meanwhile."""
    check_task_id(task_id)
    before = stored(engine, task_id, message.item_id)
    if isinstance(before, Message):  # it comes again: what became of it then was decided then
        receive(engine, task_id, message.model_copy(update={"interrupts": before.interrupts}))
        return
    if engine.files.get(team_path(task_id)) is not None:
        while_working = while_working or engine.teams.get(task_id).on_message
        if while_working == "reject":
            _refuse_if_working(engine, task_id)
    receive(engine, task_id, message.model_copy(update={"interrupts": while_working == "interrupt"}))


def check_brought(engine: Engine, task_id: str, brought: Brought) -> tuple[Artifact, ...]:
    """The artifacts that are brought; UsageError if one of them is not there, or if one of the JSON Schemas is none."""
    for where, schema in brought.schemas.items():
        if mistake := engine.toolbox.schema_mistake(schema):
            raise UsageError(f"{where}: {mistake}")
    return tuple(_artifact(engine, task_id, name) for name in brought.artifacts)


def _artifact(engine: Engine, task_id: str, name: str) -> Artifact:
    try:
        info = engine.files.get(artifact_info_path(task_id, artifact_name(name)))
    except ValueError as error:
        raise UsageError(f"artifacts: {error}") from error
    if info is None or engine.files.size(artifact_path(task_id, artifact_name(name))) is None:
        raise UsageError(f"artifacts: no file {name[:120]!r} is stored with task {task_id!r}; upload it first")
    return Artifact.model_validate_json(info)


def _refuse_if_working(engine: Engine, task_id: str) -> None:
    task = engine.board.load(task_id, 1)
    if task is not None and not task.status.waiting and not task.status.ended:
        raise UsageError(
            f"task {task_id!r} is {task.status} and takes no message while its team works; "
            "wait until it waits, or say that the message may queue or interrupt"
        )
