"""reading: a response as of now, and its input, from the history of its task.

steps from position N ─► those of the response ─► output items, usage
status of the task, if no later response follows ─► status of the response
"""

from typing import Any

from roboco.client.task import Task
from roboco.domain.canonical_json import json_bytes
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.gateway.openai.bodies import Order
from roboco.gateway.openai.ids import ResponseId, approval_request_id, shown_call_id, unknown_response
from roboco.gateway.openai.outputs import OutputItem, approval_item, response_items, text_part, total_usage
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.response_object import (
    ResponseHead,
    ResponseOrigin,
    checked_form,
    origin_of,
    response_object,
)
from roboco.gateway.openai.segment import COMPLETED, Settled, response_steps, settled_before, settled_by

QUEUED = Settled("queued")
IN_PROGRESS = Settled("in_progress")
MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a page of items, unless its first item alone has more."""


def read_response(task: Task, head: ResponseHead, position: int) -> dict[str, Any]:
    """Return the response as of now. Raise Problem `not_found` if the task has no response at this position.

    Cost: the summary, and the steps of the response.
    """
    summary = task.summary()
    steps = task.steps(max(0, position - 1))
    before = next(steps, None) if position > 0 else None
    own, followed = response_steps(steps)
    if not own:
        return _read_without_steps(task, head, before, summary)
    if own[0].agent_name not in (USER, TOOL_EXECUTOR):
        raise unknown_response(str(ResponseId(head.task_id, position)))
    origin, asks = origin_of(own[0]), list[OutputItem]()
    state = settled_before(own[-1]) if followed else _state_now(task, head, summary, own[-1], asks)
    ended = state not in (QUEUED, IN_PROGRESS)
    output = [*response_items(own, head.task_id, origin.schema is not None, ended), *asks]
    state = checked_form(state, origin, output)
    usage, changed_at = (total_usage(own), own[-1].created_at) if ended else (None, None)
    return response_object(head, origin, state, output, usage, changed_at)


def _read_without_steps(
    task: Task, head: ResponseHead, before: TaskStep | None, summary: TaskSummary
) -> dict[str, Any]:
    """Return a response whose first step is not committed: the calls that its request has answered are at work."""
    if before is None or not before.calls:
        raise unknown_response(str(ResponseId(head.task_id, 0 if before is None else before.seq + 1)))
    state, output = QUEUED if summary.status.waiting else IN_PROGRESS, []
    if summary.status is TaskStatus.APPROVAL:
        pending = task.pending_actions()
        if pending.unknown():
            state = Settled("incomplete", summary.reason)
        elif changed := pending.changes():  # the tool of an approved call has changed: a person decides again
            output = [approval_item(call, head.task_id) for call in pending.unapproved() if call.id in changed]
            state = COMPLETED
    return response_object(head, ResponseOrigin(before.seq + 1, before.created_at), state, output)


def _state_now(
    task: Task, head: ResponseHead, summary: TaskSummary, last: TaskStep, output: list[OutputItem]
) -> Settled:
    """Return the state of the newest response, and add the requests for approvals to its output."""
    unknown = False
    if summary.status is TaskStatus.APPROVAL:
        pending = task.pending_actions()
        unknown = bool(pending.unknown())
        output.extend(approval_item(call, head.task_id) for call in pending.unapproved())
    settled = settled_by(summary.status, summary.reason, last, unknown)
    if settled is not None:
        return settled
    return QUEUED if summary.status is TaskStatus.QUEUED else IN_PROGRESS


def input_items(task: Task, head: ResponseHead, position: int) -> list[OutputItem]:
    """Return the input of a response: its messages and results, and the conversation that began its task."""
    steps = list(task.steps(0))
    own = steps[position:]
    if not own or own[0].agent_name not in (USER, TOOL_EXECUTOR):
        raise unknown_response(str(ResponseId(head.task_id, position)))
    imported = [step for step in steps[:position] if step.is_imported]
    return [item for step in (*imported, *response_steps(own)[0]) for item in _input_of(step, head.task_id)]


def conversation_items(task: Task, task_id: str, imported: bool) -> list[OutputItem]:
    """Return the items of a conversation: all input, and all output of its responses; `imported` ones if it says so."""
    return [
        item
        for step in task.steps(0)
        if imported or not step.is_imported
        for item in (*_input_of(step, task_id), *response_items([step], task_id, typed=False, ended=True))
    ]


def page_of(items: list[OutputItem], limit: int, order: Order, after: str | None) -> dict[str, Any]:
    """Return a page of items, in this order, after one of them: at most 4 MiB, but at least one if there is one."""
    items = items[::-1] if order == "desc" else items
    ids = [item["id"] for item in items]
    if after is not None and after not in ids:
        raise wrong_parameter("after", f"no item {after[:80]!r}")
    first, size, page = 0 if after is None else ids.index(after) + 1, 0, list[OutputItem]()
    for item in items[first : first + limit]:
        size += json_bytes(item)
        if page and size > MAX_PAGE_BYTES:
            break
        page.append(item)
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": first + len(page) < len(items),
    }


def _input_of(step: TaskStep, task_id: str) -> list[OutputItem]:
    item_id = f"msg_{step.step_id.removeprefix('step_')}"
    if step.agent_name == USER:
        content = [{"type": "input_text", "text": step.text}]
        return [{"id": item_id, "type": "message", "role": "user", "status": "completed", "content": content}]
    if step.by_agent and step.is_imported:
        said = [text_part(step.text)]
        return [{"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": said}]
    if step.agent_name != TOOL_EXECUTOR:
        return []
    resolved = step.metadata.get("resolved") or {}
    approvals = step.metadata.get("approvals") or {}
    outputs = [
        {
            "id": f"fco_{result.tool_call_id.removeprefix('tc_')}",
            "type": "function_call_output",
            "call_id": shown_call_id(result.tool_call_id, task_id),
            "output": str(result.error if result.is_error else result.result),
            "status": "completed",
        }
        for result in step.results
        if result.tool_call_id in resolved and result.tool_call_id not in approvals
    ]
    decisions = [
        {
            "id": f"mcprr_{call_id.removeprefix('tc_')}",
            "type": "mcp_approval_response",
            "approval_request_id": approval_request_id(call_id, task_id),
            "approve": bool(one["approved"]),
            "reason": one["reason"] or None,
        }
        for call_id, one in approvals.items()
    ]
    return [*outputs, *decisions]
