"""response_object: a response as a JSON object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.history.step import TaskStep
from roboco.domain.usage import Usage
from roboco.gateway.openai.ids import ResponseId, conversation_id
from roboco.gateway.openai.outputs import OutputItem, response_usage
from roboco.gateway.openai.segment import Settled

INSTRUCTIONS = "instructions"
"""The key of the client context of a message for the instructions of its request."""


@dataclass(frozen=True)
class ResponseHead:
    """The facts about a response that do not change."""

    task_id: str
    """The task, as the caller names it."""
    team: str
    previous_response_id: str | None = None
    """The response that this one follows, if the request has just named it; histories do not record it."""
    background: bool | None = None


@dataclass(frozen=True)
class ResponseOrigin:
    """The facts about a response that its first step records."""

    position: int
    created_at: datetime
    instructions: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    """The functions of the client."""


def origin_of(step: TaskStep) -> ResponseOrigin:
    """Return the facts that the first step of a response records."""
    view = step.metadata.get("client_context")
    return ResponseOrigin(
        position=step.seq,
        created_at=step.created_at,
        instructions=view.get(INSTRUCTIONS) if isinstance(view, dict) else None,
        tools=tuple(_function_tool(tool) for tool in step.metadata.get("client_tools") or ()),
    )


@dataclass(frozen=True)
class ResponseState:
    """The facts about a response that change."""

    settled: Settled
    output: Sequence[OutputItem] = ()
    usage: Usage | None = None
    """The usage of the steps, once the response has ended."""
    changed_at: datetime | None = None


def response_object(head: ResponseHead, origin: ResponseOrigin, state: ResponseState) -> dict[str, Any]:
    """Return the response as a JSON object."""
    settled, changed_at = state.settled, state.changed_at
    return {
        "id": str(ResponseId(head.task_id, origin.position)),
        "object": "response",
        "created_at": int(origin.created_at.timestamp()),
        "completed_at": int(changed_at.timestamp()) if changed_at and settled.status == "completed" else None,
        "status": settled.status,
        "background": head.background,
        "error": {"code": "server_error", "message": settled.reason} if settled.status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if settled.at_limit else None,
        "instructions": origin.instructions,
        "metadata": {},
        "model": head.team,
        "output": list(state.output),
        "parallel_tool_calls": True,
        "previous_response_id": head.previous_response_id,
        "conversation": {"id": conversation_id(head.task_id)},
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": list(origin.tools),
        "top_p": None,
        "truncation": "disabled",
        "usage": None if state.usage is None else response_usage(state.usage),
    }


def _function_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": str(tool["name"]).removeprefix(CLIENT_PREFIX),
        "description": tool.get("description"),
        "parameters": tool.get("input_schema"),
        "strict": False,
    }
