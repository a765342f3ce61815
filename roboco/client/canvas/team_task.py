"""The Celery task `roboco.team`: submits a task, and keeps what follows it."""

import logging
from dataclasses import dataclass
from typing import Any

from celery import Celery
from celery.exceptions import Ignore
from kombu.utils import json

from roboco.adapters.celery.continuation import kept
from roboco.adapters.celery.names import BROKER, ENDED
from roboco.adapters.team.file import named_team, team_from
from roboco.client.canvas.broker import broker_mistake, broker_of
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.ids import is_task_id
from roboco.domain.notification import Notify
from roboco.domain.paths import summary_path
from roboco.domain.status import TaskStatus
from roboco.errors import Overloaded, UsageError

_log = logging.getLogger(__name__)

FIXED = ("task_id", "team", "notify")
"""What the result before a team does not decide."""


@dataclass(frozen=True)
class Order:
    """The Celery task as its worker has it, and the queue for what follows, if it is not that of the Celery task."""

    app: Celery
    request: Any
    ignore_result: bool
    queue: str | None


def team_task_id(celery_id: str) -> str:
    """The id of the task that a Celery task submits: the same for each of its messages."""
    named = f"celery-{celery_id}"
    return named if is_task_id(named) else f"celery-{sha256(celery_id)[:32]}"


def submit_team(orchestrator: Orchestrator, order: Order, given: tuple[Any, ...], asked: dict[str, Any]) -> Task:
    """Submit the task; UsageError says what is wrong, and Ignore is raised if it was submitted before.

    What comes before a team may be run twice, and come to something else: then the first submission counts.
    """
    task_id = team_task_id(str(order.request.id))
    gives, on_wait = asked.pop("result", "text"), asked.pop("on_wait", "wait")
    if gives not in ("text", "summary") or on_wait not in ("wait", "fail"):
        raise UsageError(f"result is 'text' or 'summary', on_wait 'wait' or 'fail' (found {gives!r}, {on_wait!r})")
    named = asked.pop("team", None)
    team = named_team(orchestrator.settings.teams, named) if isinstance(named, str) else team_from(named)
    wished = _wished(asked, given)
    prompt = wished.pop("prompt", "")
    if "tenant" in wished:
        raise UsageError("tenant: a team in a canvas is of the tenant of its worker (ROBOCO_TENANT): leave tenant out")
    whole: Any = wished | {"task_id": task_id}
    try:
        if order.request.is_eager:
            return orchestrator.run(team, prompt, **whole)
        if mistake := broker_mistake(order.app, orchestrator.settings):
            raise UsageError(mistake)
        return orchestrator.run_in_canvas(team, prompt, whole, _continuation(order, gives, on_wait))
    except (UsageError, Overloaded) as error:
        if orchestrator._engine.files.get(summary_path(task_id)) is None:
            raise
        _log.warning("Celery task %s came again, and its first message counts: %s", order.request.id, error)
        raise Ignore from error


def _wished(asked: dict[str, Any], given: tuple[Any, ...]) -> dict[str, Any]:
    """What is wished of the task, with what came before it."""
    if len(given) > 1:
        raise UsageError(f"a team works on one thing (found {len(given)} arguments): put them into one object")
    if not given:
        return asked
    (before,) = given
    if "prompt" in asked:
        return asked | {"context": {**(asked.get("context") or {}), "previous": before}}
    if not isinstance(before, dict):
        return asked | {"prompt": before if isinstance(before, str) else canonical(before)}
    if fixed := sorted(set(FIXED) & set(before)):
        raise UsageError(f"what comes before a team does not decide its {fixed[0]}: name it in roboco.team(...)")
    return asked | before | {"context": {**(asked.get("context") or {}), **(before.get("context") or {})}}


def _continuation(order: Order, gives: str, on_wait: str) -> Notify:
    """The Celery task that goes on when the task has ended."""
    request = kept(order.request, order.ignore_result)
    statuses = [status for status in TaskStatus if status.ended or (status.waiting and on_wait == "fail")]
    return Notify(
        celery={"task": ENDED, "args": [], "kwargs": {}, "options": {"queue": order.queue or _queue_of(order)}},
        on=tuple(statuses),
        confirmed=True,
        kept=json.dumps({"request": request, "gives": gives, BROKER: broker_of(order.app)}),
    )


def _queue_of(order: Order) -> str:
    """The queue from which the Celery task came, whose workers know `roboco.ended` too."""
    delivery = order.request.delivery_info or {}
    if not delivery.get("exchange") and delivery.get("routing_key"):
        return str(delivery["routing_key"])
    routed: Any = order.app.amqp.router.route({}, ENDED)["queue"]
    return str(routed.name)
