"""Large tool results become artifacts, so that the history stays small."""

import json

from roboco.adapters.artifacts.store import Written, write_artifact
from roboco.domain.canonical_json import canonical
from roboco.domain.history.tool_outcome import Outcome
from roboco.ports import Files

LARGEST = 32 * 1024
"""Bytes of a result that the history contains whole."""
KEPT = 2 * 1024
"""Bytes of a larger result that the history contains."""


def keep_large(files: Files, task_id: str, step_id: str, outcome: Outcome) -> Outcome:
    """Return the outcome. A result that is too large becomes an artifact of the step and is truncated here."""
    if (data := _large(outcome)) is None:
        return outcome
    is_text = isinstance(outcome.result.result, str)
    name = f"result-{outcome.result.tool_call_id[-12:]}{'.txt' if is_text else '.json'}"
    written = Written(name, "text/plain" if is_text else "application/json", step_id)
    artifact = write_artifact(files, task_id, written, data)
    cut = _cut(outcome, data, f"the whole is {artifact.uri}")
    return cut.model_copy(update={"artifacts": (*outcome.artifacts, artifact)})


def cut_large(outcome: Outcome) -> Outcome:
    """Return the outcome. A result that is too large is truncated."""
    data = _large(outcome)
    return outcome if data is None else _cut(outcome, data, "the rest could not be stored")


def _large(outcome: Outcome) -> bytes | None:
    """Return the bytes of a result that is too large for the history, or None if it is small enough."""
    result = outcome.result.result
    text = result if isinstance(result, str) else canonical(result)
    if len(data := text.encode()) <= LARGEST:
        return None
    return data if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=1).encode()


def _cut(outcome: Outcome, data: bytes, rest: str) -> Outcome:
    beginning = data[:KEPT].decode(errors="ignore")
    kept = f"{beginning}\n[... {len(data)} bytes in all, {rest}]"
    return outcome.model_copy(update={"result": outcome.result.model_copy(update={"result": kept})})
