"""effects: the files of a call whose effect must not happen twice. Its worker stores them (`run/tool_call.py`).

For a call that a shop's Celery task answers, a coordinator stores an intent as well (`shop_task.py`).
"""

import json

from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.schema import RecordModel
from roboco.engine.engine import WorkspaceRecords


class SentTask(RecordModel):
    """The intent to send the Celery task of a shop that works for a call."""

    call: ToolCall
    """The call with the arguments that were approved."""
    attempt: int
    token: str
    """The secret that the answer contains."""
    at: float
    """The time from which the call's timeout counts, in Unix seconds."""


def sent_task(workspace: WorkspaceRecords, task_id: str, call_id: str) -> SentTask | None:
    """Return the intent to send the Celery task of the call, or None if none is stored: a function's has no time."""
    data = workspace.files.get(intent_path(task_id, call_id))
    return None if data is None or "at" not in json.loads(data) else SentTask.model_validate_json(data)


def has_intent(workspace: WorkspaceRecords, task_id: str, call_id: str) -> bool:
    """Return True if a worker has begun the call, so that it may have had its effect."""
    return workspace.files.size(intent_path(task_id, call_id)) is not None


def stored_outcome(workspace: WorkspaceRecords, task_id: str, call_id: str) -> ToolOutcome | None:
    """Return the stored outcome of the call, or None if its worker has not stored one."""
    data = workspace.files.get(outcome_path(task_id, call_id))
    return ToolOutcome.model_validate_json(data) if data else None
