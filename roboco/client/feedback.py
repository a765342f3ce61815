"""feedback: store a caller's rating of a step with the task, once for each caller and step.

    rating ─► step exists, is an agent's ─► feedback/SEQ-CALLER.json (create, or replace of the version that was read)

A repetition changes nothing. If two ratings of a caller are stored at the same moment, the later write counts. The
file is no part of the history: agents do not read it, and a fork does not copy it.
"""

from typing import Any

from roboco.domain.feedback import Feedback, Rating, feedback_id
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.paths import feedback_path
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import NotFound, UsageError
from roboco.ports.memories import change_record


def store_feedback(engine: Engine, task_id: str, seq: int, by: str, rating: dict[str, Any]) -> Feedback:
    """Store the rating and return it. Raise UsageError if it is wrong, or the step is none of an agent."""
    checked = parse_arguments(Rating, rating)
    _check_step(engine.workspace, task_id, seq)
    identity, now = feedback_id(task_id, seq, by), engine.now()

    def rated(before: Feedback | None) -> Feedback:
        if before is not None and before.rating == checked:
            return before
        return Feedback(
            feedback_id=identity,
            seq=seq,
            by=by,
            created_at=now if before is None else before.created_at,
            modified_at=now,
            **dict(checked),
        )

    return rated(change_record(engine.workspace.files, feedback_path(task_id, seq, identity), _parsed, rated))


def read_feedback(workspace: WorkspaceRecords, task_id: str) -> list[Feedback]:
    """Return all ratings of the task, in the order of the steps. Cost: a read for each."""
    folder = feedback_path(task_id)
    found = (workspace.files.get(f"{folder}{name}") for name in workspace.files.names(folder))
    return [Feedback.model_validate_json(data) for data in found if data is not None]


def _parsed(data: bytes | None) -> Feedback | None:
    return None if data is None else Feedback.model_validate_json(data)


def _check_step(workspace: WorkspaceRecords, task_id: str, seq: int) -> None:
    step = next(iter(workspace.histories.read(task_id, max(0, seq))), None) if seq >= 0 else None
    if step is None:
        raise NotFound(f"task {task_id!r} has no committed step {seq}")
    if not step.by_agent:
        raise UsageError(f"seq: step {seq} is not an agent's; rate a step of an agent")
