"""response_object: a response as a JSON object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.history.step import ANSWER_FORM, TaskStep
from roboco.domain.usage import Usage
from roboco.gateway.openai.ids import ResponseId, conversation_id
from roboco.gateway.openai.outputs import OutputItem, response_usage
from roboco.gateway.openai.segment import Settled


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
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer, or None for words."""
    must_call: bool = False
    """True if the response must have a call of a function."""


def origin_of(step: TaskStep) -> ResponseOrigin:
    """Return the facts that the first step of a response records."""
    form = step.metadata.get(ANSWER_FORM) or {}
    earlier = step.metadata.get("client_context")  # of an earlier release
    return ResponseOrigin(
        position=step.seq,
        created_at=step.created_at,
        instructions=form.get("instructions") or (earlier.get("instructions") if isinstance(earlier, dict) else None),
        tools=tuple(_function_tool(tool) for tool in step.metadata.get("client_tools") or ()),
        schema=form.get("schema"),
        must_call=form.get("calls") == "required",
    )


def checked_form(settled: Settled, origin: ResponseOrigin, output: Sequence[OutputItem]) -> Settled:
    """Return the end of a response: one that lacks the form that its request demands has failed.

    Agents that are functions cannot be asked for a form.
    """
    kinds = {item["type"] for item in output}
    asks = kinds.intersection(("function_call", "mcp_approval_request"))
    lacks = (origin.must_call and not asks) or (origin.schema is not None and not asks and "message" not in kinds)
    if settled.status != "completed" or not lacks:
        return settled
    return Settled("failed", "the answer has not the form that the request demands: no model can be asked for it")


def response_object(
    head: ResponseHead,
    origin: ResponseOrigin,
    settled: Settled,
    output: Sequence[OutputItem],
    usage: Usage | None = None,
    changed_at: datetime | None = None,
) -> dict[str, Any]:
    """Return the response as a JSON object. `usage` is that of its steps, once it has ended."""
    typed = {"type": "json_schema", "name": "answer", "schema": origin.schema, "strict": True}
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
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": head.previous_response_id,
        "conversation": {"id": conversation_id(head.task_id)},
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"} if origin.schema is None else typed},
        "tool_choice": "required" if origin.must_call else "auto",
        "tools": list(origin.tools),
        "top_p": None,
        "truncation": "disabled",
        "usage": None if usage is None else response_usage(usage),
    }


def _function_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": str(tool["name"]).removeprefix(CLIENT_PREFIX),
        "description": tool.get("description"),
        "parameters": tool.get("input_schema"),
        "strict": False,
    }
