"""effects: the files of a call whose effect must not happen twice. Its worker stores them (`claimed_call.py`)."""

from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.paths import intent_path, outcome_path
from roboco.engine.engine import WorkspaceRecords


def has_intent(workspace: WorkspaceRecords, task_id: str, call_id: str) -> bool:
    """Return True if a worker has begun the call, so that it may have had its effect."""
    return workspace.files.size(intent_path(task_id, call_id)) is not None


def stored_outcome(workspace: WorkspaceRecords, task_id: str, call_id: str) -> ToolOutcome | None:
    """Return the stored outcome of the call, or None if its worker has not stored one."""
    data = workspace.files.get(outcome_path(task_id, call_id))
    return ToolOutcome.model_validate_json(data) if data else None
