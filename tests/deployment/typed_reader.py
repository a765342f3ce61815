"""A reader as a user writes it, with every type of stream item. A type checker knows the data of each type."""

from collections.abc import Iterable
from typing import assert_never

from roboco import StreamItem, TaskStatus


def line(item: StreamItem) -> str:  # noqa: C901 - a case for each type
    """Return the item in one line."""
    match item.type:
        case "text_part_delta":
            return item.data.text
        case "reasoning_delta":
            return f"({item.data.text})"
        case "tool_call_part":
            return item.data.part.tool_call.tool_name
        case "tool_result_part":
            return item.data.part.tool_result.tool_call_id
        case "step_final":
            return item.data.step.text
        case "event_task_start":
            return item.data.team
        case "event_agent_select":
            return item.data.agent_name
        case "event_agent_handoff":
            return f"{item.data.from_agent} {item.data.to_agent}"
        case "event_sub_task":
            return item.data.sub_task_id
        case "event_tool_unknown":
            return item.data.tool_call_id
        case "event_user_message":
            return item.data.text
        case "event_user_interrupt":
            return item.data.item_id
        case "event_turn_restart":
            return str(item.data.attempt)
        case "event_status":
            return " ".join(item.data.calls)
        case "event_task_end":
            return f"{item.data.reason} {item.data.usage['steps']}"
        case "event_stream_reset":
            return str(item.data.steps)
        case "event_error":
            return f"{item.data.code}: {item.data.message}"
        case "event_unknown":
            return item.data.type
        case never:
            assert_never(never)


def end(items: Iterable[StreamItem]) -> TaskStatus | None:
    """Return the status of the task's end, or None if the items do not hold it."""
    return next((item.data.status for item in items if item.type == "event_task_end"), None)
