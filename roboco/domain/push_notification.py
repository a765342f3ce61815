"""Push notifications of A2A: the state of a task, as a client of A2A receives it at its webhook."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from roboco.domain.limits import RAISE_LIMIT_HINT
from roboco.domain.schema import InputModel
from roboco.domain.status import TaskStatus as Status

_STATES: Final = {
    Status.QUEUED: "SUBMITTED",
    Status.RUNNING: "WORKING",
    Status.PAUSED: "WORKING",
    Status.USER_TURN: "INPUT_REQUIRED",
    Status.CLIENT_TOOL_TURN: "INPUT_REQUIRED",
    Status.APPROVAL: "INPUT_REQUIRED",
    Status.COMPLETED: "COMPLETED",
    Status.FAILED: "FAILED",
    Status.GOALS_FAILED: "FAILED",
    Status.CANCELLED: "CANCELED",
}
HeaderText = Annotated[str, Field(max_length=1000, pattern=r"^[ -~]*$")]


class PushConfig(InputModel):
    """A configuration of A2A: its id, its task as the client names it, and what the requests have."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    task_id: str
    context_id: str
    token: HeaderText = ""
    """The value of the header `X-A2A-Notification-Token`."""
    authorization: HeaderText = ""
    """The value of the header `Authorization`."""

    def headers(self) -> dict[str, str]:
        """Return the headers that the client wants, and the media type."""
        wanted = {"authorization": self.authorization, "x-a2a-notification-token": self.token}
        return {"content-type": "application/a2a+json"} | {name: value for name, value in wanted.items() if value}

    def body(self, status: Status, reason: str, time: datetime, message_id: str) -> dict[str, Any]:
        """Return the JSON of a StreamResponse with the status, and its reason."""
        shown: dict[str, Any] = {"state": task_state(status, reason), "timestamp": time.isoformat()}
        if reason:
            shown["message"] = {"messageId": message_id, "role": "ROLE_AGENT", "parts": [{"text": reason}]}
        return {"statusUpdate": {"taskId": self.task_id, "contextId": self.context_id, "status": shown}}


def task_state(status: Status, reason: str) -> str:
    """Return the name of the state of A2A. A task that is paused at a limit requires input."""
    at_limit = status is Status.PAUSED and reason.endswith(RAISE_LIMIT_HINT)
    return f"TASK_STATE_{'INPUT_REQUIRED' if at_limit else _STATES[status]}"
