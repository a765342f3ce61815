"""run_handler: run the handler of a command, and publish its refusal to the task's followers."""

from collections.abc import Callable
from typing import Any

from roboco.domain.ids import is_task_id, qualified_id
from roboco.domain.stream.event import ErrorOccurred
from roboco.engine.engine import Engine
from roboco.errors import Overloaded, UsageError
from roboco.settings import Settings

Handler = Callable[[Engine, Settings, dict[str, Any], str], None]
"""A handler of a command. The last argument is the id of the item if the arguments name none."""


def run_handler(handler: Handler, engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    """Handle a command. If it is refused, publish the error to the task's followers and raise it.

    If the arguments have a `tenant`, their task ids are those that the tenant uses.
    """
    if (tenant := arguments.get("tenant")) is not None:
        qualified = {name: qualified_id(tenant, arguments[name]) for name in ("task_id", "source") if name in arguments}
        arguments = {name: value for name, value in arguments.items() if name != "tenant"} | qualified
    try:
        handler(engine, settings, arguments, item_id)
    except (UsageError, Overloaded) as error:
        _publish_refusal(engine, arguments.get("task_id"), error)
        raise


def _publish_refusal(engine: Engine, task_id: object, error: UsageError | Overloaded) -> None:
    if isinstance(task_id, str) and is_task_id(task_id):
        event = ErrorOccurred(task_id=task_id, timestamp=engine.now(), code="refused", message=str(error)[:4000])
        engine.event_logs.publish_unlogged(task_id, event)
