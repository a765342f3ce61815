"""idempotency: the header Idempotency-Key of a request, as the id of a task or an item.

    Idempotency-Key, tenant       ─► SHA-256 ─► k_...  the id of the task that POST /v1/tasks or a fork creates
    Idempotency-Key, task, route  ─► SHA-256 ─► i_...  the id of the item that a control sends
    Idempotency-Key, tenant       ─► SHA-256 ─► k_...  the id of a bulk control

The id is the record of the key: a repetition finds the task or item of this id, on every gateway and for ever. If it
has other content, the key was used for another request, and the answer is 422.
"""

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Header

from roboco.client.task import Task
from roboco.domain.ids import answer_id, tenant_of
from roboco.errors import StateConflict, UsageError
from roboco.gateway.problem import Problem, forbidden, invalid

MAX_KEY_CHARS: Final = 255
"""Characters of a key."""
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_CHARS,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="Any text that is unique to this request, such as a UUID: a repetition has no further effect.",
        examples=["0b9a4a52-8f5e-4a6c-9a55-3a1f0f3a7a10"],
    ),
]

DERIVED: Final = re.compile(
    r"ai_[0-9a-f]{32}(?:_[0-9]{1,4})?|a2a_[A-Za-z0-9][A-Za-z0-9-]{0,47}(?:_[1-9][0-9]{0,3})?|oak?_[0-9a-f]{24}.*"
)
"""Ids that the gateway derives for tasks of chats, contexts and responses: their choice would capture messages."""


@dataclass(frozen=True)
class NewTaskId:
    """The id of a task that a request creates."""

    task_id: str
    """The id, with the tenant's prefix."""
    repeatable: bool
    """True if the request names the id, or its key: an earlier one may have created the task."""


def new_task_id(tenant: str | None, task_id: str | None, key: str | None, *purpose: str) -> NewTaskId:
    """Return the id of a new task: of the body, of the key, or a random one.

    Raise Problem if both are given, or if the id is that of another tenant, or of a chat.
    """
    _check_one("task_id", task_id, key)
    if task_id is not None and DERIVED.fullmatch(task_id.rpartition(":")[2]):
        raise invalid("task_id: a chat, a context of A2A or a response has the tasks with such an id", "choose another")
    if task_id is not None and tenant_of(task_id) not in ("", tenant or tenant_of(task_id)):
        raise forbidden(f"task_id: this key creates tasks of tenant {tenant!r} alone", "leave the tenant out")
    named = task_id if key is None else task_id_of_key(tenant or "", key, *purpose)
    chosen = named or f"task_{uuid.uuid4().hex}"
    return NewTaskId(chosen if tenant is None or ":" in chosen else f"{tenant}:{chosen}", named is not None)


def task_id_of_key(tenant: str, key: str, *purpose: str) -> str:
    """Return the id of the task that a request with this key creates, without the tenant's prefix."""
    return f"k_{_digest(tenant, _unquoted(key), *purpose)}"


def chosen_item_id(item_id: str | None, key: str | None, task_id: str, route: str) -> str | None:
    """Return the id of the item of a control: the given one, or that of the key, or None for a new one.

    Raise Problem `invalid` if both are given.
    """
    _check_one("item_id", item_id, key)
    name = task_id.rpartition(":")[2]  # a tenant's client may name its task with the tenant or without
    return item_id if key is None else f"i_{_digest(name, route, _unquoted(key))}"


def chosen_bulk_id(bulk_id: str | None, key: str | None, tenant: str | None) -> str | None:
    """Return the id of a bulk control: the given one, or that of the key, or None for a new one.

    Raise Problem `invalid` if both are given.
    """
    _check_one("bulk_id", bulk_id, key)
    return bulk_id if key is None else task_id_of_key(tenant or "", key, "bulk")


def is_stored(task: Task, item_id: str) -> bool:
    """Return True if an item with this id was sent to the task before."""
    try:
        task.receipt(item_id)
    except UsageError:
        return False
    return True


def are_answered(task: Task, call_ids: Iterable[str]) -> bool:
    """Return True if each of these calls has a result that its client has sent. It blocks."""
    try:
        return all(is_stored(task, answer_id(call_id)) for call_id in call_ids)
    except UsageError:
        return False  # no call has such an id


@contextmanager
def reporting_reuse(key: str | None, is_used: Callable[[], bool], code: str = "conflict") -> Iterator[None]:
    """Raise Problem with status 422 and this code if the request conflicts with an earlier one with the same key.

    A request that conflicts with the task, such as one that is busy, raises StateConflict. `is_used` separates both:
    it returns True if the id of the key is stored. It may block; only a conflict calls it.
    """
    try:
        yield
    except StateConflict as error:
        if key is None or not is_used():
            raise
        raise Problem(
            422,
            code,
            f"Idempotency-Key was used for another request before: {error}",
            "use a new key for each request, and the same body for each repetition",
        ) from error


def _check_one(name: str, given: str | None, key: str | None) -> None:
    if given is not None and key is not None:
        raise invalid(f"{name} and Idempotency-Key are both given", "send one of them")


def _unquoted(key: str) -> str:
    """Return the key without the quotes of a structured header: clients send it with and without."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key


def _digest(*parts: str) -> str:
    """Return 32 digits of the digest of the parts, none of which contains a zero character."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
