"""arguments: the validated arguments of Roboco's own Celery tasks. Any producer may have written them."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from roboco.broker.names import CREATING_TASKS
from roboco.domain.ids import MESSAGE_PREFIX, check_task_id
from roboco.engine.coordinate.shop_task import TaskAnswer
from roboco.errors import UsageError
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment

Assignment = TypeVar("Assignment", TurnAssignment, ToolAssignment, ListingRequest)

MAX_NUMBER: Final = 2**53
"""The largest number that Redis' scripts, which use floating point, distinguish from its neighbours."""
MAX_TEXT_CHARS: Final = 512
"""Characters of a text at most."""

_ANSWER_TEXTS: Final = ("task_id", "call_id", "secret")
_ADAPTERS: Final[Mapping[type[Any], TypeAdapter[Any]]] = MappingProxyType(
    {kind: TypeAdapter(kind) for kind in (TurnAssignment, ToolAssignment, ListingRequest)}
)


def parse_assignment(kind: type[Assignment], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Assignment:
    """Return the assignment with these arguments; UsageError if they are not the arguments of one."""
    known = [field.name for field in fields(kind)]
    if args or not kwargs.keys() <= set(known):
        raise UsageError(f"expected the arguments {known}, by name (found {list(args)!r:.80}, {list(kwargs)!r:.200})")
    try:
        order: Assignment = _ADAPTERS[kind].validate_python(kwargs)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']} (found {first['input']!r:.80})"
        ) from error
    check_task_id(order.task_id)
    for name, value in vars(order).items():
        if isinstance(value, int) and not 0 <= value <= MAX_NUMBER:
            raise UsageError(f"{name}: {value!r:.80} is no number from 0 to {MAX_NUMBER}")
        if isinstance(value, str) and not (len(value) <= MAX_TEXT_CHARS and value.isprintable()):
            raise UsageError(f"{name}: {value!r:.80} is no text of up to {MAX_TEXT_CHARS} printable characters")
    return order


def parse_task_answer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskAnswer:
    """Return the answer of a shop's Celery task: its result, before the names, or that it failed."""
    named = {"task_id", "call_id", "secret", *(() if args else ("failed",))}
    texts = all(isinstance(kwargs.get(name), str) and len(kwargs[name]) <= MAX_TEXT_CHARS for name in _ANSWER_TEXTS)
    if kwargs.keys() != named or len(args) > 1 or not texts or kwargs.get("failed", True) is not True:
        raise UsageError(f"expected a result or 'failed', with {list(_ANSWER_TEXTS)} (found {list(kwargs)!r:.200})")
    texts_by_name = {name: kwargs[name] for name in _ANSWER_TEXTS}
    return TaskAnswer(**texts_by_name, failed=not args, result=args[0] if args else None)


def parse_task_id(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the task id, which is the only argument; UsageError if it is not."""
    match args, kwargs:
        case ((task_id,), {**others}) | ((), {"task_id": task_id, **others}) if not others:
            return check_task_id(task_id)
        case _:
            raise UsageError(f"expected a 'task_id' (found {list(args)!r:.80}, {list(kwargs)!r:.200})")


def parse_command(name: str, message_id: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a message from outside; UsageError if some are not named.

    A message that creates a task without naming it creates one that is named after the message, so that a repetition of
    the message creates no second task.
    """
    if args:
        raise UsageError(f"expected arguments by name (found {list(args)!r:.80})")
    return {"task_id": f"{MESSAGE_PREFIX}{message_id}"} | kwargs if name in CREATING_TASKS else kwargs
