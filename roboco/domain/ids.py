"""Identifiers: which are allowed, and those that are derived from a place in a task (a call's from its content too).

A derived id is the same however often the place is computed again, which is what makes a repeated
message harmless and a tool's idempotency key stable.
"""

import re

from roboco.domain.canonical_json import canonical, sha256
from roboco.errors import UsageError

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_TASK_ID = re.compile(rf"(?:({_TENANT.pattern}):)?[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}}")
_ITEM_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_task_id(task_id: object) -> str:
    """The task id, if it may name a folder, a key and a channel; else UsageError."""
    if isinstance(task_id, str) and is_task_id(task_id):
        return task_id
    raise UsageError(
        f"task id {_shown(task_id)} is not allowed: use 1 to 128 letters, digits, '_', '-' and single '.', "
        "starting with a letter or digit; a tenant's stands before it with a ':'"
    )


def is_task_id(text: str) -> bool:
    """Whether the text may be a task id."""
    return _TASK_ID.fullmatch(text) is not None and ".." not in text


def check_tenant(tenant: object) -> str:
    """The tenant's name, if it may begin task ids; else UsageError."""
    if isinstance(tenant, str) and _TENANT.fullmatch(tenant):
        return tenant
    raise UsageError(
        f"tenant {_shown(tenant)} is not allowed: use 1 to 32 lower-case letters, digits, '_' and '-', "
        "starting with a letter or digit"
    )


def tenant_of(task_id: str) -> str:
    """Whose task it is; "" for one of no tenant."""
    tenant, colon, _ = task_id.partition(":")
    return tenant if colon else ""


def of_tenant(tenant: str | None, task_id: object) -> str:
    """The whole task id of what a tenant calls by its own name, or by the whole one; as it is for no tenant.

    UsageError if it names another tenant's task.
    """
    named = check_task_id(task_id)
    if tenant is None:
        return named
    if tenant_of(named) not in ("", check_tenant(tenant)):
        raise UsageError(f"task {named!r} is not one of tenant {tenant!r}")
    return named if tenant_of(named) else check_task_id(f"{tenant}:{named}")


def check_item_id(item_id: object) -> str:
    """The id of something that came from outside, if it may name a file; else UsageError."""
    if isinstance(item_id, str) and _ITEM_ID.fullmatch(item_id):
        return item_id
    raise UsageError(f"item id {_shown(item_id)} is not allowed: use 1 to 64 letters, digits, '_' and '-'")


def step_id_at(task_id: str, seq: int) -> str:
    """The id of the step at this position: every attempt at the position shares it."""
    return f"step_{sha256(f'{task_id}/{seq}')[:32]}"


def call_id_at(task_id: str, seq: int, index: int, name: str, args: object) -> str:
    """The id of a step's tool call number `index`, with its tool's name and its arguments in JSON.

    Derived, because a model names calls anew on each try. The same call at the same place has the same id, so that it
    never runs twice. Another call there has another id: if a history was restored to an earlier step, the outcome or
    approval of a call that is no longer in it must not answer one that the model makes now.
    """
    return f"tc_{sha256(canonical([task_id, seq, index, name, args]))[:32]}"


def sub_task_id(task_id: str, call_id: str) -> str:
    """The id of the task to which a call gives its work; the call's id alone makes it differ from all others."""
    return check_task_id(f"{task_id[:80].rstrip('.')}.{call_id.removeprefix('tc_')}")


def fork_item_id(task_id: str) -> str:
    """The id of the message with which a fork of this id begins: the same again for the same fork, and for no other."""
    return f"fork-{sha256(task_id)[:32]}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
