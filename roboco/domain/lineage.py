"""Lineage: where a task comes from, if it is a fork of another one or works for one."""

from typing import Any

from roboco.domain.part import Recorded
from roboco.domain.step import TaskStep


class Parent(Recorded):
    """The call of another task for which the task `child` works."""

    task_id: str
    call_id: str
    at_seq: int
    step_id: str
    child: str


class Fork(Recorded):
    """The task from which another one was forked, with its steps up to and including position `seq`."""

    task_id: str
    seq: int


def parent_of(task_id: str, first: TaskStep) -> Parent | None:
    """For which call the task works; None for one that stands alone, also if it is a fork of one that does not."""
    record: Any = first.metadata.get("parent")
    if record is None or record.get("child") != task_id:
        return None
    return Parent.model_validate(record)
