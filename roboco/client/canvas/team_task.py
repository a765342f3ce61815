"""The Celery task `roboco.team`: submits a task, and stores the rest of the canvas with it.

Operators find one that is refused as a warning, and as a dead letter.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from celery import Celery
from celery.exceptions import Ignore
from kombu.utils import json

from roboco.broker.continuation import serialize_request
from roboco.broker.dead_letter import dead_letter_of
from roboco.broker.display import redact_error
from roboco.broker.names import BROKER_KEY, ENDED_TASK, TEAM_TASK
from roboco.client.canvas.broker import broker_mistake, broker_of
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.client.team_lookup import resolve_sent_team
from roboco.domain.canonical_json import canonical_json
from roboco.domain.ids import team_task_id
from roboco.domain.notification import NotifyTarget
from roboco.domain.paths import summary_path
from roboco.domain.status import TaskStatus
from roboco.errors import Erased, Overloaded, TransientError, UsageError

_log = logging.getLogger(__name__)

FIXED_FIELDS: Final = ("task_id", "team", "notify")
"""Fields of a submission that the result before a team must not set."""


@dataclass(frozen=True)
class TeamInvocation:
    """The Celery task as its worker has it."""

    app: Celery
    request: Any
    ignore_result: bool
    queue: str | None
    """The queue for the tasks after it, or None for the queue of the Celery task."""


def submit_team(
    orchestrator: Orchestrator, order: TeamInvocation, previous: tuple[Any, ...], arguments: dict[str, Any]
) -> Task:
    """Submit the task, and return it. Raises UsageError if it is wrong, and Ignore if it was submitted before.

    Celery may run the task before a team twice, with different results: then the first submission counts.
    """
    task_id = team_task_id(str(order.request.id))
    gives, on_wait = arguments.pop("result", "text"), arguments.pop("on_wait", "wait")
    if gives not in ("text", "summary", "output") or on_wait not in ("wait", "fail"):
        found = f"(found {gives!r}, {on_wait!r})"
        raise UsageError(f"result is 'text', 'summary' or 'output', on_wait 'wait' or 'fail' {found}")
    team = resolve_sent_team(orchestrator.settings, arguments.pop("team", None))
    options = _submit_options(arguments, previous)
    prompt = options.pop("prompt", "")
    if "tenant" in options:
        raise UsageError("tenant: a team in a canvas is of the tenant of its worker (ROBOCO_TENANT): leave tenant out")
    whole: Any = options | {"task_id": task_id}
    try:
        if order.request.is_eager:
            return orchestrator.run(team, prompt, **whole)
        if mistake := broker_mistake(order.app, orchestrator.settings):
            raise UsageError(mistake)
        return orchestrator.run_in_canvas(team, prompt, whole, _continuation(order, gives, on_wait))
    except (UsageError, Overloaded) as error:
        if orchestrator._engine.workspace.files.get(summary_path(task_id)) is None:
            raise
        _log.warning("Celery task %s came again, and its first message counts: %s", order.request.id, error)
        raise Ignore from error


def _submit_options(arguments: dict[str, Any], previous: tuple[Any, ...]) -> dict[str, Any]:
    """Return the options of the submission, with the result before it. Raises UsageError if that sets a fixed field."""
    if len(previous) > 1:
        raise UsageError(f"a team works on one thing (found {len(previous)} arguments): put them into one object")
    if not previous:
        return arguments
    (before,) = previous
    if "prompt" in arguments:
        return arguments | {"context": {**(arguments.get("context") or {}), "previous": before}}
    if not isinstance(before, dict):
        return arguments | {"prompt": before if isinstance(before, str) else canonical_json(before)}
    if fixed := sorted(set(FIXED_FIELDS) & set(before)):
        raise UsageError(f"the result before a team cannot set its {fixed[0]}: name it in roboco.team(...)")
    return arguments | before | {"context": {**(arguments.get("context") or {}), **(before.get("context") or {})}}


def _continuation(order: TeamInvocation, gives: str, on_wait: str) -> NotifyTarget:
    """Return the notification whose Celery task continues the canvas when the task has ended."""
    request = serialize_request(order.request, order.ignore_result)
    statuses = [status for status in TaskStatus if status.ended or (status.waiting and on_wait == "fail")]
    return NotifyTarget(
        celery={"task": ENDED_TASK, "args": [], "kwargs": {}, "options": {"queue": order.queue or _queue_of(order)}},
        on=tuple(statuses),
        confirmed=True,
        continuation=json.dumps({"request": request, "gives": gives, BROKER_KEY: broker_of(order.app)}),
    )


def _queue_of(order: TeamInvocation) -> str:
    """Return the queue of the Celery task: its workers know `roboco.ended` too."""
    delivery = order.request.delivery_info or {}
    if not delivery.get("exchange") and delivery.get("routing_key"):
        return str(delivery["routing_key"])
    routed: Any = order.app.amqp.router.route({}, ENDED_TASK)["queue"]
    return str(routed.name)


def refuse(orchestrator: Orchestrator, request: Any, error: UsageError | Overloaded) -> None:
    """Store the dead letter and log the refusal. The failure of the Celery task does not depend on either.

    There is no dead letter for a tenant, since dead letters are the operator's, none for an Overloaded, since many of
    those would push lost work out of the dead letters, and none for an erased task, since it would hold the new prompt.
    """
    queue = str((request.delivery_info or {}).get("routing_key") or "")
    letter = dead_letter_of(request, queue, f"refused: {error}", 1, orchestrator._engine.now())
    stored = f"; it is dead letter {letter.letter_id}"
    if orchestrator.settings.tenant is not None or isinstance(error, Overloaded | Erased):
        stored = ""
    else:
        try:
            orchestrator._engine.tasks.dead_letters.add(letter)
        except TransientError as away:
            stored = f"; its dead letter cannot be stored ({away})"
    _log.warning("Celery task %s (%s) is refused%s: %s", request.id, TEAM_TASK, stored, redact_error(error))
