"""The shop: Celery tasks of other applications that work for tool calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from roboco.domain.team.tool_spec import TaskTool


@dataclass(frozen=True)
class ShopTask:
    """A Celery task of a shop, and the call that its result answers."""

    message_id: str
    """The id of the Celery task: the same in every attempt at the call."""
    tool: TaskTool
    args: Mapping[str, Any]
    seconds: float
    """The seconds after which the shop's workers discard the Celery task if none has begun it."""
    task_id: str
    call_id: str
    secret: str
    """The secret that the answer has to contain."""


class Shop(Protocol):
    """Sends Celery tasks to the workers of other applications. Each method ends within seconds."""

    def check(self, tool: TaskTool) -> None:
        """Raise Forbidden unless the operator allows the Celery task and its queue.

        Raise UsageError if the broker lacks the queue, and TransientError if it does not answer.
        """

    def send(self, task: ShopTask) -> None:
        """Send the Celery task. Raise TransientError if the broker fails; the message may have been sent nevertheless.

        A worker of the shop that has run it sends the answer: its result, or that it failed.
        """

    def revoke(self, message_id: str, terminate: bool) -> None:
        """Have the workers of the shop discard the Celery task or, with `terminate`, end the process that runs it.

        Raise TransientError if the broker fails.
        """
