"""call_failures: the exceptions of a task's tool calls, as tools workers have stored them."""

from pydantic import ValidationError

from roboco.domain.history.call_failure import CallFailure
from roboco.domain.paths import failures_path
from roboco.ports.workspace import Files


def call_failures(files: Files, task_id: str) -> dict[str, CallFailure]:
    """Return the exceptions by the ids of their calls. Skip files that cannot be read."""
    found: dict[str, CallFailure] = {}
    folder = failures_path(task_id)
    for name in files.names(folder):
        try:
            failure = CallFailure.model_validate_json(files.get(f"{folder}{name}") or b"")
        except ValidationError:
            continue
        found[failure.call_id] = failure
    return found
