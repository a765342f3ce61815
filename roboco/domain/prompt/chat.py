"""Chat: steps of the history as messages of the chat completions protocol."""

import re
from typing import Any

from roboco.domain.canonical_json import canonical
from roboco.domain.history.part import Artifact, ArtifactPart, ErrorPart, TextPart, ToolCallPart, ToolResult
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep

Message = dict[str, Any]
"""One message of the chat completions protocol: `role`, `content`, `tool_calls`, `tool_call_id`."""
Group = tuple[TaskStep, ...]
"""A step, followed by the step with the results of its calls if there is one."""

_UNSOUND = re.compile(r"[^A-Za-z0-9_-]")


def messages_of(agent: str, group: Group, images: bool) -> list[Message]:
    """Return the messages of a group for this agent.

    With `images` its model accepts images, by their artifacts' URIs.
    """
    return [message for step in group for message in _messages(agent, step, group, images)]


def says_nothing(step: TaskStep) -> bool:
    """Return True if an agent's step has no text and no call. Some providers refuse such a message."""
    return step.by_agent and not step.text.strip() and not step.calls and step.error is None


def grouped(steps: tuple[TaskStep, ...]) -> list[Group]:
    """Return the steps in groups, without results whose calls are missing."""
    groups: list[Group] = []
    for step in steps:
        if step.agent_name == TOOL_EXECUTOR:
            if groups and groups[-1][-1].calls:
                groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups


def sound(name: str) -> str:
    """Return the name of a tool in the characters that providers accept, even if a model invented the name."""
    return _UNSOUND.sub("_", name)[:64] or "unnamed"


def _messages(agent: str, step: TaskStep, group: Group, images: bool) -> list[Message]:
    if step.agent_name == TOOL_EXECUTOR:
        return _results(agent, step, group[0], images)
    if step.agent_name == agent:
        return [_own(step)]
    text = told(step)
    if step.agent_name != USER:
        text = f"[{step.agent_name}] {text}"
    return [_with_images({"role": "user", "content": text}, step.artifacts, images)]


def _with_images(message: Message, artifacts: tuple[Artifact, ...], images: bool) -> Message:
    shown = [artifact for artifact in artifacts if images and is_image(artifact)]
    if not shown:
        return message
    parts = [{"type": "image_url", "image_url": {"url": artifact.uri}} for artifact in shown]
    return message | {"content": [{"type": "text", "text": message["content"]}, *parts]}


def is_image(artifact: Artifact) -> bool:
    """Return True if models that accept images accept this one."""
    return artifact.mime_type in ("image/png", "image/jpeg", "image/gif", "image/webp")


def image_kind(data: bytes) -> str | None:
    """Return the MIME type of an image that models accept, from its first bytes, or None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _own(step: TaskStep) -> Message:
    message: Message = {"role": "assistant", "content": told(step, with_calls=False)}
    if step.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": sound(call.tool_name), "arguments": canonical(call.args)},
            }
            for call in step.calls
        ]
    return message


def _results(agent: str, step: TaskStep, caller: TaskStep, images: bool) -> list[Message]:
    artifacts = "".join(f"\n(stored as {artifact.uri})" for artifact in step.artifacts)
    shown = [_with_images({"role": "user", "content": "(images from the tools)"}, step.artifacts, images)]
    pictures = shown if isinstance(shown[0]["content"], list) else []
    if caller.agent_name == agent:
        last = len(step.results) - 1
        results: list[Message] = [
            {
                "role": "tool",
                "tool_call_id": result.tool_call_id,
                "content": _said(result, step) + (artifacts if index == last else ""),
            }
            for index, result in enumerate(step.results)
        ]
        return results + pictures
    names = {call.id: call.tool_name for call in caller.calls}
    lines = [f"[{names.get(result.tool_call_id)} answered] {_said(result, step)}" for result in step.results]
    return [{"role": "user", "content": "\n".join(lines) + artifacts}, *pictures]


def _said(result: ToolResult, step: TaskStep) -> str:
    verdict = (step.metadata.get("approvals") or {}).get(result.tool_call_id) or {}
    args = verdict.get("args")
    changed = "" if args is None else f"(a person changed the arguments to {canonical(args)}) "
    if result.is_error:
        return f"{changed}error: {result.error}"
    return changed + (result.result if isinstance(result.result, str) else canonical(result.result))


def told(step: TaskStep, with_calls: bool = True) -> str:
    """Return the step as text."""
    lines: list[str] = []
    for part in step.parts:
        match part:
            case TextPart():
                lines.append(part.text)
            case ErrorPart():
                lines.append(f"(error: {part.message})")
            case ArtifactPart():
                lines.append(f"(file: {part.artifact.uri}, {part.artifact.mime_type})")
            case ToolCallPart() if with_calls:
                lines.append(f"(calls {part.tool_call.tool_name} with {canonical(part.tool_call.args)})")
            case _:
                pass
    if step.interrupted:
        lines.append("(interrupted by the user)")
    return "\n".join(lines)
