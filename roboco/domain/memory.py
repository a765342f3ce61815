"""Working memory: the part of the history that one turn sends to the model, chosen purely.

The first user message and the steps that a tool-calling agent still needs are always in; a step with
calls and the step with their results stay together, so that every call that is sent has its result.
"""

import re
from dataclasses import dataclass
from typing import Any, assert_never

from roboco.domain.canonical import canonical
from roboco.domain.part import ArtifactPart, ErrorPart, TextPart, ToolCallPart, ToolResult
from roboco.domain.step import TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.team import Agent, BudgetContext, RecentContext

_UNSOUND = re.compile(r"[^A-Za-z0-9_-]")

Message = dict[str, Any]
"""One message of the chat completions protocol: `role`, `content`, `tool_calls`, `tool_call_id`."""


@dataclass(frozen=True)
class WorkingMemory:
    """What one turn sends: messages in order, and the receipt of what went in and what was left out."""

    messages: tuple[Message, ...]
    receipt: dict[str, Any]


def compile_memory(agent: Agent, prompt: str, first: TaskStep, tail: tuple[TaskStep, ...]) -> WorkingMemory:
    """The working memory of the agent's next turn: the rendered prompt, then the chosen steps in order.

    `tail` holds the newest steps in order; `first` is step 0, which may stand in `tail` too.
    """
    groups = _grouped(tail if tail[0].seq == 0 else (first, *tail))
    head, rest = groups[0], groups[1:]
    looked_at = _looked_at(first, tail)
    spent = estimate_tokens(prompt) + estimate_tokens(looked_at) + _size(head)
    chosen = [head, *_newest(agent, rest, spent)]
    messages: list[Message] = [{"role": "system", "content": prompt}]
    for group in chosen:
        for step in group:
            if _is_empty(step):
                continue
            messages.extend(_messages(agent.name, step, group))
    if looked_at:
        messages.append({"role": USER, "content": looked_at})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": USER, "content": "Go on."})
    included = [step.seq for group in chosen for step in group]
    total = tail[-1].seq + 1
    receipt = {
        "strategy": agent.context.strategy,
        "included": _ranges(included),
        "left_out": total - len(included),
        "estimated_tokens": sum(estimate_tokens(canonical(message)) for message in messages),
    }
    return WorkingMemory(tuple(messages), receipt)


def _is_empty(step: TaskStep) -> bool:
    """Whether an agent has said and called nothing, which some providers do not take back."""
    return step.by_agent and not step.text.strip() and not step.calls and step.error is None


def _sound(name: str) -> str:
    """The name of a tool as providers take it back, also where a model made it up."""
    return _UNSOUND.sub("_", name)[:64] or "unnamed"


def _looked_at(first: TaskStep, tail: tuple[TaskStep, ...]) -> str:
    """What the user was looking at when the newest message was written, if that is known."""
    newest = next((step for step in reversed(tail) if step.agent_name == USER), first)
    seen = newest.metadata.get("client_context")
    return f"(The user is looking at: {canonical(seen)})" if seen else ""


def estimate_tokens(text: str) -> int:
    """A rough count of tokens: one for each four bytes of UTF-8, rounded up."""
    return -(-len(text.encode()) // 4)


Group = tuple[TaskStep, ...]


def _grouped(steps: tuple[TaskStep, ...]) -> list[Group]:
    groups: list[Group] = []
    for step in steps:
        if step.agent_name == TOOL_EXECUTOR:
            if groups and groups[-1][-1].calls:
                groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups


def _newest(agent: Agent, groups: list[Group], spent: int) -> list[Group]:
    chosen: list[Group] = []
    steps = 0
    for group in reversed(groups):
        steps += len(group)
        spent += _size(group)
        if chosen and not _fits(agent, steps, spent):
            break
        chosen.insert(0, group)
    return chosen


def _fits(agent: Agent, steps: int, tokens: int) -> bool:
    match agent.context:
        case RecentContext() as policy:
            return steps <= policy.steps
        case BudgetContext() as policy:
            return tokens <= policy.tokens
        case unknown:
            assert_never(unknown)


def _size(group: Group) -> int:
    return sum(estimate_tokens(canonical([part.model_dump(mode="json") for part in step.parts])) for step in group)


def _ranges(numbers: list[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _messages(agent: str, step: TaskStep, group: Group) -> list[Message]:
    if step.agent_name == TOOL_EXECUTOR:
        return _results(agent, step, group[0])
    if step.agent_name == agent:
        return [_own(step)]
    text = _told(step)
    if step.agent_name != USER:
        text = f"[{step.agent_name}] {text}"
    return [{"role": "user", "content": text}]


def _own(step: TaskStep) -> Message:
    message: Message = {"role": "assistant", "content": _told(step, with_calls=False)}
    if step.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _sound(call.tool_name), "arguments": canonical(call.args)},
            }
            for call in step.calls
        ]
    return message


def _results(agent: str, step: TaskStep, caller: TaskStep) -> list[Message]:
    artifacts = "".join(f"\n(stored as {artifact.uri})" for artifact in step.artifacts)
    if caller.agent_name == agent:
        last = len(step.results) - 1
        return [
            {
                "role": "tool",
                "tool_call_id": result.tool_call_id,
                "content": _said(result, step) + (artifacts if index == last else ""),
            }
            for index, result in enumerate(step.results)
        ]
    names = {call.id: call.tool_name for call in caller.calls}
    lines = [f"[{names.get(result.tool_call_id)} answered] {_said(result, step)}" for result in step.results]
    return [{"role": "user", "content": "\n".join(lines) + artifacts}]


def _said(result: ToolResult, step: TaskStep) -> str:
    verdict = (step.metadata.get("approvals") or {}).get(result.tool_call_id) or {}
    args = verdict.get("args")
    changed = "" if args is None else f"(a person changed the arguments to {canonical(args)}) "
    if result.is_error:
        return f"{changed}error: {result.error}"
    return changed + (result.result if isinstance(result.result, str) else canonical(result.result))


def _told(step: TaskStep, with_calls: bool = True) -> str:
    told: list[str] = []
    for part in step.parts:
        match part:
            case TextPart():
                told.append(part.text)
            case ErrorPart():
                told.append(f"(error: {part.message})")
            case ArtifactPart():
                told.append(f"(file: {part.artifact.uri}, {part.artifact.mime_type})")
            case ToolCallPart() if with_calls:
                told.append(f"(calls {part.tool_call.tool_name} with {canonical(part.tool_call.args)})")
            case _:
                pass
    if step.interrupted:
        told.append("(interrupted by the user)")
    return "\n".join(told)
