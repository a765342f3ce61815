"""Large tool results become artifacts, so that the history stays small."""

import json

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.store import NewArtifact, write_artifact

MAX_RESULT_BYTES = 32 * 1024
"""Bytes of a result that the history contains whole."""
EXCERPT_BYTES = 2 * 1024
"""Bytes of a larger result that the history contains."""


def offload_large(files: Files, task_id: str, step_id: str, outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome. A result that is too large becomes an artifact of the step and is truncated here."""
    if (data := _oversized_bytes(outcome)) is None:
        return outcome
    is_text = isinstance(outcome.result.result, str)
    name = f"result-{outcome.result.tool_call_id[-12:]}{'.txt' if is_text else '.json'}"
    written = NewArtifact(name, "text/plain" if is_text else "application/json", step_id)
    artifact = write_artifact(files, task_id, written, data)
    cut = _truncated(outcome, data, f"the whole is {artifact.uri}")
    return cut.model_copy(update={"artifacts": (*outcome.artifacts, artifact)})


def truncate_large(outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome. A result that is too large is truncated."""
    data = _oversized_bytes(outcome)
    return outcome if data is None else _truncated(outcome, data, "the rest could not be stored")


def _oversized_bytes(outcome: ToolOutcome) -> bytes | None:
    """Return the bytes of a result that is too large for the history, or None if it is small enough."""
    result = outcome.result.result
    text = result if isinstance(result, str) else canonical_json(result)
    if len(data := text.encode()) <= MAX_RESULT_BYTES:
        return None
    return data if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=1).encode()


def _truncated(outcome: ToolOutcome, data: bytes, rest: str) -> ToolOutcome:
    beginning = data[:EXCERPT_BYTES].decode(errors="ignore")
    kept = f"{beginning}\n[... {len(data)} bytes in all, {rest}]"
    return outcome.model_copy(update={"result": outcome.result.model_copy(update={"result": kept})})
