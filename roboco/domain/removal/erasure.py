"""Erasure: the request to erase a task, and its receipt, which remains as the tombstone of the task."""

import json
import re
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from roboco.domain.dead_letter import DeadLetter
from roboco.domain.ids import MESSAGE_PREFIX, tenant_of
from roboco.domain.schema import CallerId, InputModel, RecordedCaller, RecordModel

MAX_LISTED: Final = 1000
"""Ids of other tasks that a receipt lists at most, for each kind."""

ForksChoice = Literal["refuse", "keep", "erase"]
"""The treatment of forks, whose histories contain steps of the erased task."""


class ErasureChoice(InputModel):
    """The options of a caller that erases a task."""

    reason: Annotated[str, Field(max_length=2000)] = ""
    stop: bool = False
    forks: ForksChoice = "refuse"
    by: CallerId | None = None


class ErasureRequest(RecordModel):
    """An accepted request to erase a task. Coordinators carry it out."""

    task_id: str
    requested_at: datetime
    by: RecordedCaller = None
    reason: str = ""
    stop: bool = False
    """True if the task is stopped first."""
    forks: ForksChoice = "keep"
    keep_memory: bool = False
    """True if the memory keeps what the task remembered, as for a task that the retention removes."""


class ErasureReceipt(RecordModel):
    """The receipt of an erasure: what was removed, when and by whom. It holds no content of the task. Times are UTC."""

    task_id: str
    status: Literal["erasing", "erased"]
    """`erasing` until the last file is removed."""
    requested_at: datetime
    finished_at: datetime | None = None
    by: RecordedCaller = None
    reason: str = ""
    files: int | None = None
    """The files of the workspace that were removed, or None until they are counted."""
    bytes: int = 0
    """The size of these files."""
    kinds: dict[str, int] = {}
    """The number of these files by kind, such as `history` or `artifacts`."""
    dead_letters: int = 0
    sub_tasks: list[str] = []
    """The sub-tasks that are erased with this task, each with its own receipt."""
    forks: list[str] = []
    """The forks of this task, whose histories contain steps of it."""
    forks_erased: bool = False
    """True if the forks are erased with this task."""
    memory: str = ""
    """The file of the memory that the task used, or ""."""
    remembered: int = 0
    """The entries of this memory that the task remembered. They are erased with it, unless the retention removes it."""
    problem: str = ""
    """A part of the task that could not be found or removed, with the remedy, or ""."""


def concerns(letter: DeadLetter, task_id: str) -> bool:
    """Return True if the dead letter is of the task's work, or is a message that names the task.

    A message names its task by an argument or by its own id. The texts in it do not count: an id such as `prompt` would
    else concern the messages of all tasks. A body may be truncated, so it is searched and not parsed.
    """
    if letter.work is not None or letter.task_id:
        return letter.task_id == task_id
    tenant, header = tenant_of(task_id), letter.headers.get("id")
    bare = task_id.removeprefix(f"{tenant}:")
    of_tenant = tenant == "" or _has_argument(letter.body, "tenant", tenant)
    if isinstance(header, str) and (
        header.partition("/")[0] == task_id or (of_tenant and bare in (header, f"{MESSAGE_PREFIX}{header}"))
    ):
        return True
    if letter.body.startswith(f"[[{json.dumps(task_id)}]"):
        return True
    named = (task_id, bare) if of_tenant else (task_id,)
    return any(_has_argument(letter.body, argument, name) for argument in ("task_id", "source") for name in named)


def _has_argument(body: str, argument: str, value: str) -> bool:
    """Return True if the body gives the argument this value. A quote inside a text of the body is escaped."""
    return re.search(rf'"{argument}"\s*:\s*{re.escape(json.dumps(value))}', body) is not None
