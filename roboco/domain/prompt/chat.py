"""Chat: steps of the history as messages of the chat completions protocol."""

import re
from typing import Any

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import Artifact, ToolResult
from roboco.domain.history.step import PROVIDER, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.history.step_text import step_text
from roboco.domain.prompt.attached import attached_part, kind_of
from roboco.domain.team.model_profile import FileKind

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
