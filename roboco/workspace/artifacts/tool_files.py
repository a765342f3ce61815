"""Media in tool results, and results that are too large for the history, become artifacts."""

import hashlib
import json
import re
from typing import Any

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import Artifact, Media, ToolOutcome
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.mime import HEAD_BYTES, mime_of
from roboco.workspace.artifacts.store import NewArtifact, write_artifact

MAX_RESULT_BYTES = 32 * 1024
"""Bytes of a result that the history contains whole."""
EXCERPT_BYTES = 2 * 1024
"""Bytes of a larger result that the history contains."""
_MIME = re.compile(r"[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,60}")
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/mpeg": ".mp3",
    "audio/wave": ".wav",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
}


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


def store_media(files: Files, task_id: str, step_id: str, outcome: ToolOutcome) -> ToolOutcome:
    """Store the media as artifacts of the step, and return the outcome with their URIs.

    Names derive from the bytes, unless a tool has named the file: a call that runs twice leaves one artifact.
    """
    if not outcome.media:
        return outcome
    kept = {media.part: _store(files, task_id, step_id, media) for media in outcome.media}
    named = {
        part: {"mime_type": artifact.mime_type, "artifact": artifact.uri, "size": artifact.size}
        for part, artifact in kept.items()
    }
    artifacts = tuple({artifact.uri: artifact for artifact in kept.values()}.values())
    changed = _with_fields(outcome, named)
    return changed.model_copy(update={"artifacts": (*outcome.artifacts, *artifacts), "media": ()})


def remove_media(outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome without its media, each marked as not stored."""
    changed = _with_fields(outcome, {media.part: {"left_out": "it could not be stored"} for media in outcome.media})
    return changed.model_copy(update={"media": ()})


def _store(files: Files, task_id: str, step_id: str, media: Media) -> Artifact:
    digest = hashlib.sha256(media.data).hexdigest()[:32]
    ending = _SUFFIXES.get(mime_of("", media.data[:HEAD_BYTES]), "")
    kind = "file" if media.kind == "resource" else media.kind
    declared = media.mime_type if _MIME.fullmatch(media.mime_type) else ""
    name = media.name or f"{kind}-{digest}{ending}"
    return write_artifact(files, task_id, NewArtifact(name, declared, step_id), media.data)


def _with_fields(outcome: ToolOutcome, described: dict[int, dict[str, Any]]) -> ToolOutcome:
    """Return the outcome with these fields added to its parts, by position. The answer of an agent has no parts."""
    if not described or not isinstance(outcome.result.result, list):
        return outcome
    found = enumerate(outcome.result.result)
    parts = [part | described[place] if place in described else part for place, part in found]
    return outcome.model_copy(update={"result": outcome.result.model_copy(update={"result": parts})})
