"""Chat: steps of the history as messages of the chat completions protocol.

Files are parts of messages, with their URIs in place of their data.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import Artifact, ToolResult
from roboco.domain.history.step import PROVIDER, TOOL_EXECUTOR, USER, TaskStep, step_text
from roboco.domain.team.model_profile import FileKind
from roboco.domain.tokens import IMAGE_TOKENS

MessagePart = dict[str, Any]
_KINDS: Final[Mapping[str, FileKind]] = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/gif": "image",
    "image/webp": "image",
    "application/pdf": "pdf",
    "audio/wav": "audio",
    "audio/wave": "audio",
    "audio/x-wav": "audio",
    "audio/mpeg": "audio",
}
_PDF_BYTES_PER_TOKEN, _AUDIO_BYTES_PER_TOKEN = 40, 500
"""Bytes of a file for which a token is estimated: a page of text is about 100 KB and 2,500 tokens, a second of sound
16 KB and 32."""


def kind_of(artifact: Artifact) -> FileKind | None:
    """Return the kind of the file if some models accept it."""
    return _KINDS.get(artifact.mime_type)


def file_kind(data: bytes) -> FileKind | None:
    """Return the kind of a file by its first bytes, or None if no model accepts it."""
    return _KINDS.get(file_mime_type(data) or "")


def attached_part(artifact: Artifact) -> MessagePart:
    """Return the part of a file that has a kind."""
    return file_part(kind_of(artifact), artifact.uri, artifact.mime_type, artifact.name) | {"size": artifact.size}


def file_part(kind: FileKind | None, data: str, mime_type: str, name: str) -> MessagePart:
    """Return a part with this data: a URI, or for a model the URL of the data, of a sound the base64 alone."""
    match kind:
        case "pdf":
            return {"type": "file", "file": {"filename": name, "file_data": data}}
        case "audio":
            sound = {"data": data, "format": "mp3" if mime_type == "audio/mpeg" else "wav"}
            return {"type": "input_audio", "input_audio": sound}
        case _:
            return {"type": "image_url", "image_url": {"url": data}}


def data_of(part: Mapping[str, Any]) -> str | None:
    """Return the URI or the data of a part, or None for a text."""
    match part:
        case (
            {"type": "image_url", "image_url": {"url": str(data)}}
            | {"type": "file", "file": {"file_data": str(data)}}
            | {"type": "input_audio", "input_audio": {"data": str(data)}}
        ):
            return data
        case _:
            return None


def attached_tokens(part: Mapping[str, Any]) -> int:
    """Return an estimate of the tokens of a part; 0 for a text."""
    size = part.get("size") or 3 * len(data_of(part) or "") // 4
    match part["type"]:
        case "image_url":
            return IMAGE_TOKENS
        case "file":
            return max(IMAGE_TOKENS, size // _PDF_BYTES_PER_TOKEN)
        case "input_audio":
            return int(size // _AUDIO_BYTES_PER_TOKEN)
        case _:
            return 0


def file_mime_type(data: bytes) -> str | None:
    """Return the type of a file that models accept, from its first bytes, or None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data.startswith(b"%PDF-"):
        return "application/pdf"
    if data.startswith(b"ID3") or (data[:1] == b"\xff" and data[1:2] in (b"\xfb", b"\xf3", b"\xf2")):
        return "audio/mpeg"
    return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12]) if data[:4] == b"RIFF" else None


ChatMessage = dict[str, Any]
"""One message of the chat completions protocol: `role`, `content`, `tool_calls`, `tool_call_id`.

An agent's own message also has `provider`, if its model's provider wants something back with it."""
StepGroup = tuple[TaskStep, ...]
"""A step, followed by the step with the results of its calls if there is one."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


AcceptedKinds = frozenset[FileKind]
"""The kinds of files that a model accepts."""


def messages_of(agent: str, group: StepGroup, accepted: AcceptedKinds) -> list[ChatMessage]:
    """Return the messages of a group for this agent. Files that its model accepts are parts, with their URIs."""
    return [message for step in group for message in _messages(agent, step, group, accepted)]


def is_empty(step: TaskStep) -> bool:
    """Return True if an agent's step has no text and no call, or the call that is its turn.

    Some providers refuse an empty message. What a function has answered is in another step.
    """
    said = step.text.strip() or step.calls or step.error or step.invalid_output
    return step.by_agent and (not said or step.begins_function)


def group_by_call(steps: tuple[TaskStep, ...]) -> list[StepGroup]:
    """Return the steps in groups, without results whose calls are missing."""
    groups: list[StepGroup] = []
    for step in steps:
        if step.agent_name == TOOL_EXECUTOR:
            if groups and groups[-1][-1].calls:
                groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups


def safe_tool_name(name: str) -> str:
    """Return the name of a tool in the characters that providers accept, even if a model invented the name."""
    return _UNSAFE.sub("_", name)[:64] or "unnamed"


def _messages(agent: str, step: TaskStep, group: StepGroup, accepted: AcceptedKinds) -> list[ChatMessage]:
    if step.agent_name == TOOL_EXECUTOR:
        return _results(agent, step, group[0], accepted)
    if step.agent_name == agent:
        own = [_own_message(step)]
        return [*own, {"role": "user", "content": _correction(step)}] if step.invalid_output else own
    text = step_text(step)
    if step.agent_name != USER:
        text = f"[{step.agent_name}] {text}"
    return [_with_files({"role": "user", "content": text}, step.artifacts, accepted)]


def _correction(step: TaskStep) -> str:
    return f"That answer cannot be used: {step.invalid_output}. Answer again, with the whole corrected value alone."


def _with_files(message: ChatMessage, artifacts: tuple[Artifact, ...], accepted: AcceptedKinds) -> ChatMessage:
    """Return the message with the files that the model accepts, and with the names of those that it cannot see."""
    shown = [artifact for artifact in artifacts if kind_of(artifact) in accepted]
    hidden = [(artifact.uri, kind) for artifact in artifacts if (kind := kind_of(artifact)) and kind not in accepted]
    notes = "".join(f"\n(not shown: {uri}, since your model accepts no {kind})" for uri, kind in hidden)
    text = message["content"] + notes
    parts = [{"type": "text", "text": text}, *map(attached_part, shown)]
    return message | {"content": parts if shown else text}


def _own_message(step: TaskStep) -> ChatMessage:
    message: ChatMessage = {"role": "assistant", "content": step_text(step, with_calls=False)}
    if isinstance(provider := step.metadata.get(PROVIDER), dict) and not step.is_imported:
        message["provider"] = provider
    if step.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": safe_tool_name(call.tool_name), "arguments": canonical_json(call.args)},
            }
            for call in step.calls
        ]
    return message


def _results(agent: str, step: TaskStep, caller: TaskStep, accepted: AcceptedKinds) -> list[ChatMessage]:
    stored = "".join(f"\n(stored as {artifact.uri})" for artifact in step.artifacts)
    files = [_with_files({"role": "user", "content": "(files from the tools)"}, step.artifacts, accepted)]
    if not any(kind_of(artifact) for artifact in step.artifacts):
        files = []
    if caller.agent_name == agent:
        last = len(step.results) - 1
        results: list[ChatMessage] = [
            {
                "role": "tool",
                "tool_call_id": result.tool_call_id,
                "content": _result_text(result, step) + (stored if index == last else ""),
            }
            for index, result in enumerate(step.results)
        ]
        return results + files
    names = {call.id: call.tool_name for call in caller.calls}
    lines = [f"[{names.get(result.tool_call_id)} answered] {_result_text(result, step)}" for result in step.results]
    return [{"role": "user", "content": "\n".join(lines) + stored}, *files]


def _result_text(result: ToolResult, step: TaskStep) -> str:
    verdict = (step.metadata.get("approvals") or {}).get(result.tool_call_id) or {}
    args = verdict.get("args")
    changed = "" if args is None else f"(a person changed the arguments to {canonical_json(args)}) "
    if result.is_error:
        return f"{changed}error: {result.error}"
    return changed + (result.result if isinstance(result.result, str) else canonical_json(result.result))
