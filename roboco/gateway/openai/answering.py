"""answering: bring results of a client's functions, and decisions on calls, to the task that waits for them.

    calls open ─► usage of the day, for results ─► each answered, one after another ─► response
    calls of sub-tasks, while the task runs ─► each decided ─► response
    answered before, at work or as a step ─► the same response
    unknown, answered twice, or not all answered ─► 400

A request that arrives twice, or whose first attempt has brought some answers only, answers each call once: the first
answer counts.
"""

from typing import Final

from roboco.client.task import Task
from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.step import TOOL_EXECUTOR, TaskStep
from roboco.domain.ids import answer_id, approval_id, change_id, check_item_id, may_be_sub_task, sub_task_id
from roboco.gateway.idempotency import are_answered, is_stored
from roboco.gateway.openai.accepting import AcceptedTurn, TurnRequest, read_state, refuse_open_calls
from roboco.gateway.openai.ids import split_call_id
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.openai.turn import Answer, Decided, Resolved, Returned
from roboco.gateway.principal import Scope
from roboco.gateway.problem import Problem

MAX_NAMED: Final = 200
"""Characters of unknown calls that an error names: a client may send thousands."""


async def accept_answers(request: TurnRequest, task_id: str) -> AcceptedTurn:
    """Answer the calls for which a task waits, or find the response of an earlier attempt at the request."""
    gateway, caller, turn = request.gateway, request.caller, request.turn
    caller.require(Scope.CONTROL)
    if any(isinstance(answer, Decided | Resolved) for answer in turn.answers):
        caller.require(Scope.APPROVE)
    task = await gateway.task(caller, task_id)
    given = set(map(_call_id, turn.answers))
    if len(given) < len(turn.answers):
        raise wrong_parameter(turn.param, "has more than one result of a call", "send one result of each call")
    state = await gateway.calls.reads.run(read_state, task, None)
    if state.cursor is None or not given <= {call.id for call in state.last.calls}:
        return await _accept_for_sub_tasks(request, task, given, state.last)
    unknown = await gateway.calls.reads.run(_check_all_answered, request, task, given)
    results = [_call_id(answer) for answer in turn.answers if isinstance(answer, Returned)]
    if results:
        await gateway.admit_message(caller, lambda: are_answered(task, results))
    for answer in turn.answers:
        await _give(request, task, answer)
    start = ResponseStart(state.last.seq + 1, before=state.last, unknown=unknown)
    return AcceptedTurn(task, start, state.cursor)


async def _accept_for_sub_tasks(request: TurnRequest, task: Task, given: set[str], last: TaskStep) -> AcceptedTurn:
    """Bring decisions to the sub-tasks that wait for them, or find the response of an earlier attempt at the request.

    Results for the task's own calls beside these may come with them. Decisions that sub-tasks have are left out: some
    clients send them again.
    """
    reads, pending = request.gateway.calls.reads, task.pending_actions()
    cursor = await reads.run(task.recent_cursor)  # before the decisions: what follows them is in the response
    waiting, own = await reads.run(pending.sub_tasks), {call.id for call in last.calls}
    answers = request.turn.answers
    asked = [answer for answer in answers if isinstance(answer, Decided) and _call_id(answer) in waiting]
    if not asked:
        return await reads.run(_answered_before, request, task, given, last)
    results = [answer for answer in answers if isinstance(answer, Returned) and _call_id(answer) in own]
    rest = [answer for answer in answers if answer not in asked and answer not in results]
    if not await reads.run(lambda: all(_has_decision(request, task, answer) for answer in rest)):
        raise _no_open_calls(request, set(map(_call_id, rest)))
    if results:
        await request.gateway.admit_message(request.caller, lambda: are_answered(task, map(_call_id, results)))
    unknown = frozenset(call.id for call in await reads.run(pending.unknown)) & own
    accepted: list[Answer] = [*results, *asked]
    for answer in accepted:
        await _give(request, task, answer)
    before = last if cursor is not None else None  # else the stream is read from its begin
    start = ResponseStart(last.seq + 1, before=before, unknown=unknown, amid_calls=True)
    return AcceptedTurn(task, start, cursor)


async def _give(request: TurnRequest, task: Task, answer: Answer) -> None:
    """Bring one answer to its call."""
    controls, by = request.gateway.calls.controls, request.caller.by
    call_id = _call_id(answer)
    match answer:
        case Resolved():
            item_id = _resolution_id(call_id)
            await controls.run(task.resolve, call_id, answer.happened, answer.result, item_id, by=by)
        case Decided() if answer.approve:
            await controls.run(task.approve, call_id, answer.args, answer.reason, by=by)
        case Decided():
            await controls.run(task.deny, call_id, answer.reason, by=by)
        case Returned():
            form = {name: value for name, value in request.message_options.items() if name == "answer_form"}
            await controls.run(task.answer, call_id, answer.text, by=by, **form)


def _answered_before(request: TurnRequest, task: Task, given: set[str], last: TaskStep) -> AcceptedTurn:
    """Return the response that follows the results of these calls. Raise Problem if the calls are not open.

    Approved calls may be at work still: then the response has no step yet.
    """
    for step in task.steps():
        if step.agent_name == TOOL_EXECUTOR and given <= {result.tool_call_id for result in step.results}:
            return AcceptedTurn(task, ResponseStart(step.seq))
    if given <= {call.id for call in last.calls} and all(_has_answer(task, call_id) for call_id in given):
        return AcceptedTurn(task, ResponseStart(last.seq + 1))
    if all(_has_decision(request, task, answer) for answer in request.turn.answers):
        begin, child = 0, _sub_task_of(request, request.turn.answers[0])
        for step in task.steps():
            children = [sub_task_id(task.task_id, call.id) for call in step.calls if call.tool_name == DELEGATE]
            begin = step.seq + 1 if children else begin
            if any(child == name or may_be_sub_task(child, name) for name in children):
                break
        return AcceptedTurn(task, ResponseStart(begin, amid_calls=True))
    raise _no_open_calls(request, given)


def _has_decision(request: TurnRequest, task: Task, answer: Answer) -> bool:
    """Return True if a sub-task of the task has a decision on the call, whose id names the sub-task."""
    child = _sub_task_of(request, answer)
    if not may_be_sub_task(child, task.task_id) or not request.gateway.exists(child):
        return False
    return _has_answer(request.gateway.orchestrator.task(child), _call_id(answer))


def _call_id(answer: Answer) -> str:
    return split_call_id(answer.call_id)[0]


def _sub_task_of(request: TurnRequest, answer: Answer) -> str:
    named = split_call_id(answer.call_id)[1]
    return request.caller.task_id(named) if named else ""


def _no_open_calls(request: TurnRequest, call_ids: set[str]) -> Problem:
    named = ", ".join(sorted(call_ids))[:MAX_NAMED]
    return wrong_parameter(request.turn.param, f"no open calls {named}", "answer the calls of the newest response")


def _has_answer(task: Task, call_id: str) -> bool:
    """Return True if a result of the call, a decision on it, or its resolution by a client, is accepted."""
    return any(is_stored(task, item_id(call_id)) for item_id in (answer_id, approval_id, change_id, _resolution_id))


def _resolution_id(call_id: str) -> str:
    """Return the id of the item by which a client resolves the call: a repetition has no further effect."""
    return check_item_id(f"outcome-{call_id}")


def _check_all_answered(request: TurnRequest, task: Task, given: set[str]) -> frozenset[str]:
    """Raise Problem unless the request answers all calls for which the task waits.

    Return the calls with an unknown outcome that it leaves out: most clients cannot resolve them.
    """
    pending = task.pending_actions()
    missing = [call.id for call in (*pending.unanswered(), *pending.unapproved()) if call.id not in given]
    if missing:
        refuse_open_calls(request, missing)
    return frozenset(call.id for call in pending.unknown()) - given
