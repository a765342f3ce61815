"""Identifiers: which ones are allowed, ids that are derived from a position in a task, and the shard of a task.

A derived id is the same each time it is computed. Therefore a repeated message is harmless, and the idempotency key of
a tool call is stable.

The schedule is split into SHARDS parts. A Redis Cluster splits its keys into SLOTS slots by CRC16 of the hash tag in
braces, and gives each node ranges of slots. A shard is a range of slots: that of its tasks' keys. Its own keys have a
hash tag in the same range. So, while nodes own whole ranges, a shard lives on the node of its tasks, and a node that
does not answer affects its own shards only. Three equal nodes divide the slots inside shards 5 and 10: some tasks of
these shards are on another node than their shard.
"""

import re
from binascii import crc_hqx
from itertools import count

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.errors import Forbidden, UsageError

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_TASK_ID = re.compile(rf"(?:({_TENANT.pattern}):)?[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}}")
_ITEM_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RESERVED_PREFIXES = ("answer-", "verdict-", "change-", "stop-", "fork-", "outage-", "resumed-")
"""Prefixes of item ids that Roboco creates itself."""


RUN_PREFIX = "whatif-"
"""The beginning of the ids of runs of `what-if`. No other task has such an id."""
MAX_FORK_CHARS = 80
"""Characters of the id of a fork."""
MESSAGE_PREFIX = "task_"
"""The beginning of the id of a task whose submission names none; the id of the message follows."""
_RUN_ID = re.compile(rf"({RUN_PREFIX}[0-9a-f]+)-\d+(?:\.|$)")


class NewId(str):
    """An id that this process has just drawn at random: nothing in the workspace has it yet."""

    __slots__ = ()


def check_task_id(task_id: object) -> str:
    """Return the task id if it is valid as the name of a folder, a key and a channel.

    Raise UsageError otherwise.
    """
    if isinstance(task_id, str) and is_task_id(task_id):
        return task_id
    raise UsageError(
        f"task id {_quoted(task_id)} is not allowed: use 1 to 128 letters, digits, '_', '-' and single '.', "
        "starting with a letter or digit; a tenant's id is followed by ':' before it"
    )


def is_task_id(text: str) -> bool:
    """Return True if the text is a valid task id."""
    return _TASK_ID.fullmatch(text) is not None and ".." not in text


def check_tenant(tenant: object) -> str:
    """Return the tenant's name if it is valid as the prefix of task ids.

    Raise UsageError otherwise.
    """
    if isinstance(tenant, str) and _TENANT.fullmatch(tenant):
        return tenant
    raise UsageError(
        f"tenant {_quoted(tenant)} is not allowed: use 1 to 32 lower-case letters, digits, '_' and '-', "
        "starting with a letter or digit"
    )


def tenant_of(task_id: str) -> str:
    """Return the tenant of the task, or "" if it has none."""
    tenant, colon, _ = task_id.partition(":")
    return tenant if colon else ""


def qualified_id(tenant: str | None, task_id: object) -> str:
    """Return the task id with the prefix of the tenant, if there is a tenant and the id lacks the prefix.

    Raise UsageError if the id belongs to another tenant.
    """
    named = check_task_id(task_id)
    if tenant is None:
        return named
    if tenant_of(named) not in ("", check_tenant(tenant)):
        raise Forbidden(f"task {named!r} is not one of tenant {tenant!r}")
    return named if tenant_of(named) else check_task_id(f"{tenant}:{named}")


def check_item_id(item_id: object) -> str:
    """Return the id of an inbox item if it is valid as the name of a file.

    Raise UsageError otherwise.
    """
    if isinstance(item_id, str) and _ITEM_ID.fullmatch(item_id):
        return item_id
    raise UsageError(f"item id {_quoted(item_id)} is not allowed: use 1 to 64 letters, digits, '_' and '-'")


def check_own_item_id(item_id: str) -> str:
    """Return the id that a caller has chosen. Raise UsageError if it is invalid, or if its prefix is reserved."""
    if item_id.startswith(RESERVED_PREFIXES):
        raise UsageError(f"item_id: {item_id[:80]!r} has a prefix that Roboco reserves: {', '.join(RESERVED_PREFIXES)}")
    return check_item_id(item_id)


def step_id_at(task_id: str, seq: int) -> str:
    """Return the id of the step at this position. Every attempt at the position shares it."""
    return f"step_{sha256(f'{task_id}/{seq}')[:32]}"


def call_id_at(task_id: str, seq: int, index: int, name: str, args: object) -> str:
    """Return the id of a step's tool call number `index`, derived from its position, tool name and arguments in JSON.

    It is derived, because a model generates new call ids on each attempt. The same call at the same position has the
    same id, so it never runs twice. A different call there has a different id. Otherwise, after a history was restored
    to an earlier step, the outcome or approval of a call that was lost could apply to a new call of the model.
    """
    return f"tc_{sha256(canonical_json([task_id, seq, index, name, args]))[:32]}"


def sub_task_id(task_id: str, call_id: str) -> str:
    """Return the id of the sub-task that works for a call.

    The call's id makes it unique among the tasks that are no forks: their steps have different ids. Forks of a task may
    have the same call; they differ by their ids, which are no longer than the part in this one.
    """
    return check_task_id(f"{_of_sub_tasks(task_id)}{call_id.removeprefix('tc_')}")


def may_be_sub_task(task_id: str, of: str) -> bool:
    """Return True if this is the form of the ids of another task's sub-tasks, at any depth."""
    return task_id.startswith(_of_sub_tasks(of))


def _of_sub_tasks(task_id: str) -> str:
    return f"{task_id[:MAX_FORK_CHARS].rstrip('.')}."


def shop_task_id(task_id: str, seq: int, call_id: str) -> str:
    """Return the id of the Celery task of another application that works for a call of the step at this position.

    It is the same in every attempt.
    """
    return f"{task_id}/{seq + 1:04}/shop/{call_id}"


def what_if_id(task_id: str) -> str | None:
    """Return the id of the comparison that this run of `what-if`, or a sub-task of one, belongs to. Else None."""
    tenant, colon, name = task_id.rpartition(":")
    found = _RUN_ID.match(name)
    return None if found is None else f"{tenant}{colon}{found[1]}"


def check_no_run_id(task_id: str) -> None:
    """Raise UsageError if the task would count as a run of `what-if` in lists and reports of usage."""
    if task_id.rpartition(":")[2].startswith(RUN_PREFIX):
        raise UsageError(f"task id {task_id!r} begins with {RUN_PREFIX!r}, as only runs of what-if do; choose another")


def team_task_id(celery_id: str) -> str:
    """Return the id of the task that a Celery task of a canvas submits: the same for each of its messages."""
    named = f"celery-{celery_id}"
    return named if is_task_id(named) else f"celery-{sha256(celery_id)[:32]}"


def retry_id(task_id: str, steps: int) -> str:
    """Return the id of the task with which a failed one continues that has ended after this number of steps."""
    return qualified_id(tenant_of(task_id) or None, f"retry_{sha256(f'{task_id}/{steps}')[:32]}")


def fork_item_id(task_id: str) -> str:
    """Return the id of the first message of a fork with this task id. Only the same fork has the same id."""
    return f"fork-{sha256(task_id)[:32]}"


def answer_id(call_id: str) -> str:
    """Return the id of the item with the external result of the call."""
    return check_item_id(f"answer-{call_id}")


def approval_id(call_id: str) -> str:
    """Return the id of the item that approves or denies the call."""
    return check_item_id(f"verdict-{call_id}")


def change_id(call_id: str) -> str:
    """Return the id of the item that approves or denies the change of the call's tool."""
    return check_item_id(f"change-{call_id}")


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


SHARDS = 16
"""Parts of the schedule. Four to five times the nodes of a usual cluster, and few enough to read all in one pass."""
SLOTS = 16384
"""Hash slots of a Redis Cluster."""


def shard_of(entry: str) -> int:
    """Return the shard of a task, or of a job whose name ends in "/" and a task id."""
    return _shard_of_tag(entry.rpartition("/")[2])


def _shard_of_tag(tag: str) -> int:
    return crc_hqx(tag.encode(), 0) % SLOTS * SHARDS // SLOTS


def _tag_of(shard: int) -> str:
    return next(tag for number in count() if _shard_of_tag(tag := f"schedule/{shard}-{number}") == shard)


SHARD_TAGS = tuple(map(_tag_of, range(SHARDS)))
"""The hash tag of each shard's keys. No task id contains a "/", so no task has such a tag."""
