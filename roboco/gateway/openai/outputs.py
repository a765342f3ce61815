"""outputs: the items of a response as JSON objects, and the usage of its steps."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import OUTPUT, TaskStep
from roboco.domain.usage import Usage, usage_of
from roboco.gateway.openai.ids import approval_request_id, call_item_id, message_item_id, shown_call_id
from roboco.gateway.openai.tools import arguments_json, function_calls, function_name

OutputItem = dict[str, Any]
SERVER_LABEL: Final = "roboco"
"""The name under which requests for approvals show the tools of a team."""


def text_part(text: str) -> OutputItem:
    """Return a content part with this text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message_item(item_id: str, text: str | None, status: str) -> OutputItem:
    """Return an output message; without a text it has no content yet."""
    content = [] if text is None else [text_part(text)]
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": content}


def function_call_item(call: ToolCall, task_id: str, arguments: str, status: str) -> OutputItem:
    """Return the call of a client's function."""
    return {
        "id": call_item_id(task_id, call.id),
        "type": "function_call",
        "call_id": shown_call_id(call.id, task_id),
        "name": function_name(call),
        "arguments": arguments,
        "status": status,
    }


def approval_item(call: ToolCall, task_id: str) -> OutputItem:
    """Return the request to approve a call."""
    return {
        "id": approval_request_id(call.id, task_id),
        "type": "mcp_approval_request",
        "server_label": SERVER_LABEL,
        "name": call.tool_name,
        "arguments": arguments_json(call),
    }


def message_status(step: TaskStep) -> str:
    """Return the status of a step's message: one that was cut short is incomplete."""
    return "incomplete" if step.interrupted or step.error is not None else "completed"


def is_answer(step: TaskStep) -> bool:
    """Return True if an agent wrote the step for this task, and not before it in an imported conversation."""
    return step.by_agent and not step.is_imported


def typed_answer(steps: Sequence[TaskStep]) -> TaskStep | None:
    """Return the step with the typed answer of a response, or None if its last answer has no type."""
    last = next((step for step in reversed(steps) if is_answer(step)), None)
    return last if last is not None and last.has_output and not last.calls else None


def value_text(step: TaskStep) -> str:
    """Return the value of a typed answer as JSON text, the same for a live step and a stored one."""
    return canonical_json(step.metadata[OUTPUT])


def response_items(steps: Sequence[TaskStep], task_id: str, typed: bool, ended: bool) -> Iterator[OutputItem]:
    """Yield the output items of committed steps: their texts, and their calls of the client's functions.

    A typed response has the value of its last answer in place of all texts, once it has ended.
    """
    answer = typed_answer(steps) if typed and ended else None
    for step in filter(is_answer, steps):
        text = step.text if not typed else value_text(step) if step is answer else ""
        if text:
            item_id = message_item_id(task_id, step.step_id, int(step.metadata.get("attempt", 1)))
            yield message_item(item_id, text, message_status(step))
        for call in function_calls(step):
            yield function_call_item(call, task_id, arguments_json(call), "completed")


def total_usage(steps: Iterable[TaskStep]) -> Usage:
    """Return the usage of the steps."""
    total = Usage()
    for step in steps:
        total = total.plus(usage_of(step.metadata))
    return total


def response_usage(usage: Usage) -> OutputItem:
    """Return the usage in the form of responses. Models report no cached or reasoning tokens to Roboco."""
    return {
        "input_tokens": usage.tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.tokens,
    }


def chat_usage(usage: Usage) -> OutputItem:
    """Return the usage in the form of chat completions."""
    return {"prompt_tokens": usage.tokens_in, "completion_tokens": usage.tokens_out, "total_tokens": usage.tokens}
