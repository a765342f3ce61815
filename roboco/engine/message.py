"""message: take in what a user says to a task, and what becomes of it while the team works."""

from typing import Literal

from roboco.domain.brought import Brought
from roboco.domain.ids import check_task_id
from roboco.domain.inbox import Message
from roboco.domain.paths import team_path
from roboco.engine.engine import Engine
from roboco.engine.receive import receive, stored
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


def check_brought(engine: Engine, brought: Brought) -> None:
    """UsageError if one of its JSON Schemas is none."""
    for where, schema in brought.schemas.items():
        if mistake := engine.toolbox.schema_mistake(schema):
            raise UsageError(f"{where}: {mistake}")


def _refuse_if_working(engine: Engine, task_id: str) -> None:
    task = engine.board.load(task_id, 1)
    if task is not None and not task.status.waiting and not task.status.ended:
        raise UsageError(
            f"task {task_id!r} is {task.status} and takes no message while its team works; "
            "wait until it waits, or say that the message may queue or interrupt"
        )
