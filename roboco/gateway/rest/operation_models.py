"""operation_models: the bodies of responses about the deployment. The others are those of the client library."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from roboco.client.operator.operations import Overview, QueueReport
from roboco.domain.dead_letter import WorkKind
from roboco.domain.rate_report import RateReport
from roboco.domain.schema import RecordModel
from roboco.domain.switch import MAX_REASON_CHARS, Switch
from roboco.gateway.rest.models import StrictInput


class OperationsOverview(Overview):
    """The deployment in numbers, and where more of it is shown."""

    flower_url: str | None
    """The address of Flower, as ROBOCO_GATEWAY_FLOWER_URL names it."""


class QueueList(RecordModel):
    """The three queues of Roboco."""

    queues: list[QueueReport]


class RateList(RecordModel):
    """Rate limits of models, at most 200."""

    rates: list[RateReport]


class DeadLetterEntry(RecordModel):
    """A dead letter without its body and headers."""

    letter_id: str
    name: str
    """The name of the Celery task of the message or work, or "?"."""
    reason: str
    time: datetime
    attempts: int
    """The number of failed attempts at the work."""
    work: WorkKind | None
    """The kind of the work, or None for a message."""
    task_id: str
    detail: str
    """The agent or the call of the work."""
    queue: str
    """The queue from which the message was removed."""
    size: int
    """Bytes of the whole body."""
    truncated: bool
    """True if the body is truncated, or is not the body of a valid message."""
    may_requeue: bool
    """False if the letter cannot be sent again. If it is true, its task may still have ended."""


class DeadLetterList(RecordModel):
    """A page of dead letters, the newest first."""

    dead_letters: list[DeadLetterEntry]
    cursor: str
    """The cursor of the next page, or "" after the last one."""


class DeadLetterDecision(RecordModel):
    """A dead letter that is off the list."""

    letter_id: str
    name: str
    """The name of the Celery task of the message or work, or "?"."""
    status: Literal["requeued", "dismissed"]


class DrainWorker(StrictInput):
    """A worker to drain."""

    worker: Annotated[str, Field(min_length=1, max_length=255)]
    """Its node name, such as `celery@host`."""
    timeout: Annotated[float | None, Field(ge=0, le=86_400)] = None
    """Seconds in which its work may end, before it is handed over; by default its ROBOCO_DRAIN_TIMEOUT."""


class SwitchOff(StrictInput):
    """Something to switch off."""

    target: Annotated[str, Field(max_length=200)]
    """KIND:NAME, with a kind of queue, tenant, team, agent, model, tool; or `agent:TEAM/NAME`."""
    reason: Annotated[str, Field(max_length=MAX_REASON_CHARS)]
    """Why. Everyone with a task that waits sees it."""
    interrupt: bool = False
    """True to interrupt running turns and calls too, except calls of irreversible tools."""


class SwitchOn(StrictInput):
    """Something to switch on."""

    target: Annotated[str, Field(max_length=200)]
    """KIND:NAME, as it was switched off."""


class SwitchedOn(RecordModel):
    """Something that is switched on."""

    target: str
    was_off: bool


class SwitchList(RecordModel):
    """Everything that is switched off, at most 200 things."""

    switches: list[Switch]
