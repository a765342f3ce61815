"""Large results of tools are kept as artifacts, so that the history stays light."""

import json

from roboco.adapters.artifacts import write_artifact
from roboco.domain.canonical import canonical
from roboco.domain.outcome import Outcome
from roboco.ports import Files

LARGEST = 32 * 1024
"""Bytes of a result that stand in the history."""
KEPT = 2 * 1024
"""Bytes of a larger result that stand in the history."""


def keep_large(files: Files, task_id: str, outcome: Outcome) -> Outcome:
    """The outcome, with a result that is too large kept as an artifact and cut to its beginning."""
    result = outcome.result.result
    text = result if isinstance(result, str) else canonical(result)
    data = text.encode()
    if len(data) <= LARGEST:
        return outcome
    is_text = isinstance(result, str)
    if not is_text:
        data = json.dumps(result, ensure_ascii=False, indent=1).encode()
    name = f"result-{outcome.result.tool_call_id[-12:]}{'.txt' if is_text else '.json'}"
    mime_type = "text/plain" if is_text else "application/json"
    artifact = write_artifact(files, task_id, name, data, mime_type)
    beginning = data[:KEPT].decode(errors="ignore")
    kept = f"{beginning}\n[... {len(data)} bytes in all, the whole is {artifact.uri}]"
    return outcome.model_copy(
        update={
            "result": outcome.result.model_copy(update={"result": kept}),
            "artifacts": (*outcome.artifacts, artifact),
        }
    )
