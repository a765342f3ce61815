"""Messages of roboto.ai's client, each accepted once.

    POST ─► item id of (session, caller, body, next index)
      ├─ that of the last message, a moment ago ─► 200: the client has repeated its request
      ├─ stored already, or the session waits for its user ─► accepted
      └─ it does not ─► refused: the client's list has the message at an index that another step gets

The client repeats a POST after 429, 502 and 503, up to ten times, without an idempotency key. A repetition of the last
message counts as the same one while its turn runs, and for REPEAT_SECONDS after it was applied.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from roboco.client.options import MessageOptions
from roboco.client.session import SessionPoll
from roboco.client.task import Task
from roboco.domain.canonical_json import canonical_json, sha256, well_formed
from roboco.domain.history.step import USER, TaskStep
from roboco.domain.session.agent_session import AgentSessionStatus
from roboco.domain.status import TaskStatus
from roboco.gateway.idempotency import is_stored
from roboco.gateway.problem import Problem, invalid
from roboco.gateway.roboto.changes import session_status
from roboco.gateway.roboto.goals import declared_goals, synthesized_text
from roboco.gateway.roboto.requests import MessageContext, SendRequest, ToolResultBody, ToolResultsRequest, WireTool

REPEAT_SECONDS: Final = 3.0
"""Seconds for which the same message, after its turn has ended, counts as a repetition of the request."""
MAX_ERROR_CHARS: Final = 4000
"""Characters of the error of a client tool."""
_DECIDED: Final = (TaskStatus.APPROVAL, TaskStatus.PAUSED)
"""The statuses in which a person has a decision to make. To the client they are user_turn, so that it stops polling."""
_INDICES: Final = 8
"""Steps that may have been committed between the first request and the message's own step."""
_SENT, _MADE = "rt", "rs"
"""Prefixes of the ids of messages whose text the client has in its list, and of those that the gateway has made."""


def sender_prefix(by: str) -> str:
    """Return the prefix of the item ids of messages that the caller's client has in its own list."""
    return f"{_SENT}-{sha256(by)[:12]}-"


def item_id_at(task_id: str, by: str, request: SendRequest, index: int) -> str:
    """Return the id of the message. The same request at the same index has the same id."""
    body = well_formed(canonical_json([task_id, by, request.model_dump(exclude_unset=True), index]))
    kind = _MADE if request.message is None else _SENT
    return f"{kind}-{sha256(by)[:12]}-{sha256(body)[:32]}"


def is_accepted(task: Task, by: str, request: SendRequest, now: datetime) -> bool:
    """Return True if the request repeats one whose message is accepted already."""
    steps = task.history()
    repeats = _repeats(task.task_id, by, request, steps, _turn_of(task.poll(_at_end(steps))), now)
    return repeats or is_stored(task, item_id_at(task.task_id, by, request, len(steps)))


def send_message(task: Task, by: str, request: SendRequest, now: datetime) -> None:
    """Accept the message, once. Raise Problem if the session does not wait for its user, or if the request is wrong."""
    request.check()
    text = _text_of(request)
    steps = task.history()
    item_id = item_id_at(task.task_id, by, request, len(steps))
    poll = task.poll(_at_end(steps))
    status = _turn_of(poll)
    if _repeats(task.task_id, by, request, steps, status, now):
        return
    if not is_stored(task, item_id):  # an item may be stored and not accepted yet: the same one completes that
        _check_turn(status, poll.status, _rests(poll.status, steps))
    task.send(text, item_id=item_id, **message_options(request, by, declared_tools(steps)))


def answer_tools(task: Task, by: str, request: ToolResultsRequest) -> None:
    """Accept the results of client tools. A repetition changes nothing. Raise Problem for tools that are not declared.

    The results before a wrong one stay accepted.
    """
    if request.client_tools:
        _check_declared(request.client_tools, declared_tools(task.history()))
    for outcome in request.tool_results:
        is_error = outcome.status != "success"
        task.answer(
            outcome.tool_use_id,
            None if is_error else outcome.output,
            status=outcome.status,
            error=_error_of(outcome) if is_error else None,
            runtime_ms=outcome.runtime_ms,
            by=by,
        )


def message_options(request: MessageContext, by: str, known_tools: Sequence[dict[str, Any]] = ()) -> MessageOptions:
    """Return the options of the message. Its client tools are added to the known ones, or replace those of a name."""
    options: MessageOptions = {"by": by}
    if request.goals:
        options["goals"] = declared_goals(request.goals)
    if request.client_tools:
        new = [tool.declared() for tool in request.client_tools]
        names = {tool["name"] for tool in new}
        options["client_tools"] = [*(tool for tool in known_tools if tool["name"] not in names), *new]
    if viewed := request.viewed():
        options["client_context"] = viewed
    if scope := request.scoped():
        options["scope"] = scope
    return options


def declared_tools(steps: Sequence[TaskStep]) -> list[dict[str, Any]]:
    """Return the client tools that the newest message with some has declared."""
    for step in reversed(steps):
        if step.agent_name == USER and (tools := step.metadata.get("client_tools")):
            return list(tools)
    return []


def _text_of(request: SendRequest) -> str:
    if request.message is not None:
        if request.message.role != "user":
            raise invalid("message: its role must be 'user'")
        return request.message.text
    if not request.goals:
        raise invalid("message: is missing; send a message or goals")
    return synthesized_text(request.goals)


def _at_end(steps: Sequence[TaskStep]) -> str:
    """Return a token of a client that has all steps: its poll reads none."""
    return f".0.0.{len(steps)}.0"


def _turn_of(poll: SessionPoll) -> AgentSessionStatus:
    """Return the party whose message the session takes. While a person has a decision to make, the client has none."""
    return AgentSessionStatus.ROBOTO_TURN if poll.status in _DECIDED else session_status(poll.status, poll.continues)


def _repeats(
    task_id: str, by: str, request: SendRequest, steps: Sequence[TaskStep], status: AgentSessionStatus, now: datetime
) -> bool:
    """Return True if the last message of the user is this request, and the client cannot know its answer yet."""
    last = next((step for step in reversed(steps) if step.agent_name == USER), None)
    if last is None:
        return False
    ids = {item_id_at(task_id, by, request, index) for index in range(max(0, last.seq - _INDICES), last.seq + 1)}
    if last.metadata.get("item_id") not in ids:
        return False
    settled = status is not AgentSessionStatus.ROBOTO_TURN
    return not settled or now - last.created_at < timedelta(seconds=REPEAT_SECONDS)


def _rests(status: TaskStatus, steps: Sequence[TaskStep]) -> bool:
    """Return True for a fork that no worker has seen yet, and that ends with an agent's answer: its user is next."""
    return status is TaskStatus.QUEUED and bool(steps) and steps[-1].by_agent and not steps[-1].calls


def _check_turn(status: AgentSessionStatus, task_status: TaskStatus, rests: bool) -> None:
    if task_status in _DECIDED:
        where, remedy = f"task has the status {task_status}", "approve, deny or resume first"
    elif status is AgentSessionStatus.ROBOTO_TURN and not rests:
        where, remedy = "session is in roboto_turn", "poll its delta until it is in user_turn"
    elif status is AgentSessionStatus.CLIENT_TOOL_TURN:
        where, remedy = "session is in client_tool_turn", "submit the results of its tools"
    else:
        return
    raise Problem(409, "busy", f"the {where} and takes no message", remedy)


def _check_declared(tools: Sequence[WireTool], known: Sequence[dict[str, Any]]) -> None:
    names = {tool["name"] for tool in known}
    if new := sorted(tool.name for tool in tools if tool.name not in names):
        raise invalid(f"client_tools: {', '.join(new)[:200]} cannot be declared here; declare tools with a message")


def _error_of(outcome: ToolResultBody) -> str:
    output = outcome.output or {}
    given = output.get("error")
    return (given if isinstance(given, str) and given else canonical_json(output))[:MAX_ERROR_CHARS]
