"""orders: the validated arguments of Roboco's own Celery tasks. Any producer may have written them."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from roboco.adapters.celery.names import CREATING
from roboco.domain.ids import check_task_id
from roboco.errors import UsageError
from roboco.ports import CallOrder, ListOrder, TurnOrder

Order = TypeVar("Order", TurnOrder, CallOrder, ListOrder)

NUMBER_MOST: Final = 2**53
"""The largest number that Redis' scripts, which use floating point, distinguish from its neighbours."""
TEXT_MOST: Final = 512
"""Characters of a text at most."""

_ADAPTERS: Final[Mapping[type[Any], TypeAdapter[Any]]] = MappingProxyType(
    {kind: TypeAdapter(kind) for kind in (TurnOrder, CallOrder, ListOrder)}
)


def order_of(kind: type[Order], args: tuple[Any, ...], named: dict[str, Any]) -> Order:
    """Return the order with these arguments; UsageError if they are not the arguments of one."""
    known = [field.name for field in fields(kind)]
    if args or not named.keys() <= set(known):
        raise UsageError(f"expected the arguments {known}, by name (found {list(args)!r:.80}, {list(named)!r:.200})")
    try:
        order: Order = _ADAPTERS[kind].validate_python(named)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']} (found {first['input']!r:.80})"
        ) from error
    check_task_id(order.task_id)
    for name, value in asdict(order).items():
        if isinstance(value, int) and not 0 <= value <= NUMBER_MOST:
            raise UsageError(f"{name}: {value!r:.80} is no number from 0 to {NUMBER_MOST}")
        if isinstance(value, str) and not (len(value) <= TEXT_MOST and value.isprintable()):
            raise UsageError(f"{name}: {value!r:.80} is no text of up to {TEXT_MOST} printable characters")
    return order


def task_of(args: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return the task id, which is the only argument; UsageError if it is not."""
    match args, named:
        case ((task_id,), {**others}) | ((), {"task_id": task_id, **others}) if not others:
            return check_task_id(task_id)
        case _:
            raise UsageError(f"expected a 'task_id' (found {list(args)!r:.80}, {list(named)!r:.200})")


def command_arguments(name: str, message_id: str, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a message from outside; UsageError if some are not named.

    A message that creates a task without naming it creates one that is named after the message, so that a repetition of
    the message creates no second task.
    """
    if args:
        raise UsageError(f"expected arguments by name (found {list(args)!r:.80})")
    return {"task_id": f"task_{message_id}"} | named if name in CREATING else named
