"""run_handler: run the handler of a command, write its line of the audit log, and publish its refusal to followers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from roboco.broker import names
from roboco.client.audit import MAX_ID_CHARS, Act, Way, audited
from roboco.domain.canonical_json import canonical_json
from roboco.domain.ids import is_task_id, qualified_id
from roboco.domain.limits import LimitOverrides
from roboco.domain.stream.event import ErrorOccurred
from roboco.engine.engine import Engine
from roboco.errors import Overloaded, UsageError
from roboco.settings import Settings

MAX_LIMITS_CHARS: Final = 2000
"""Characters of new limits in a line of the audit log. Longer ones and wrong ones are left out; the history holds the
longer ones."""
_AUDITED_FIELDS: Final = {"item": "item_id", "call": "call_id", "source": "source"}
Handler = Callable[[Engine, Settings, dict[str, Any], str], bool | None]
"""A handler of a command. The last argument is the id of the item if the arguments name none.

It returns True if it has created a task.
"""


@dataclass(frozen=True)
class SentCommand:
    """A command as it was sent; nothing of it is checked yet."""

    name: str
    """The name of its Celery task."""
    arguments: dict[str, Any]
    item_id: str
    """The id of its item if the arguments name none."""
    way: Way


def run_handler(handler: Handler, engine: Engine, settings: Settings, command: SentCommand) -> bool | None:
    """Handle a command, and return the result of its handler.

    If it is refused, publish the error to the task's followers and raise it. If the arguments have a
    `tenant`, their task ids are those that the tenant uses.
    """
    with audited(_act_of(command), settings.audit_log):
        arguments = command.arguments
        if (tenant := arguments.get("tenant")) is not None:
            qualified = {
                name: qualified_id(tenant, arguments[name]) for name in ("task_id", "source") if name in arguments
            }
            arguments = {name: value for name, value in arguments.items() if name != "tenant"} | qualified
        try:
            return handler(engine, settings, arguments, command.item_id)
        except (UsageError, Overloaded) as error:
            publish_refusal(engine, arguments.get("task_id"), error)
            raise


def publish_refusal(engine: Engine, task_id: object, error: UsageError | Overloaded) -> None:
    """Publish to the task's followers that a command or an answer is refused."""
    if isinstance(task_id, str) and is_task_id(task_id):
        event = ErrorOccurred(task_id=task_id, timestamp=engine.now(), code="refused", message=str(error)[:4000])
        engine.tasks.event_logs.publish_unlogged(task_id, event)


def _act_of(command: SentCommand) -> Act:
    """Return the command as the audit log shows it."""
    arguments = {"item_id": command.item_id} | command.arguments
    shown = {short: arguments.get(field) for short, field in _AUDITED_FIELDS.items()}
    details: dict[str, Any] = {
        short: value[:MAX_ID_CHARS] for short, value in shown.items() if isinstance(value, str) and value
    }
    if command.name == names.SET_LIMITS_TASK or (command.name == names.RETRY_TASK and arguments.get("limits")):
        details["limits"] = _checked_limits(arguments.get("limits"))
    by, task_id, tenant = (arguments.get(field) for field in ("by", "task_id", "tenant"))
    if isinstance(task_id, str) and isinstance(tenant, str) and ":" not in task_id:
        task_id = f"{tenant}:{task_id}"
    return Act(
        command.name.removeprefix("roboco."),
        by if isinstance(by, str) else None,
        task_id if isinstance(task_id, str) else None,
        command.way,
        details,
    )


def _checked_limits(limits: object) -> dict[str, Any] | None:
    """Return the limits that the command sets, or None if they are wrong, or longer than a line may show."""
    try:
        checked = LimitOverrides.model_validate(limits).overrides()
    except (ValidationError, RecursionError):
        return None
    return checked if len(canonical_json(checked)) <= MAX_LIMITS_CHARS else None
