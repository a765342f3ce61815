"""accepting: bring the turn of a request to a task: a new one, one that waits, or a branch of one.

    message: no earlier response ─────────────► new task
             response or conversation at rest ─► send
             response that is not the newest, or whose task has ended ─► fork
             running ─► 409
    answers and decisions: calls open ─► usage of the day, for results ─► each answered, one after another ─► response
             calls of sub-tasks, while the task runs ─► each decided ─► response
             answered before, at work or as a step ─► the same response
             unknown, answered twice, or not all answered ─► 400

What if a request arrives twice: see `repetition.py`; an answer or decision of a call counts once, the first one, also
if an attempt has brought some answers only. If the process dies after the acceptance, the task goes on, and a
repetition of the request finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, Final

from roboco.client.task import Task
from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.conversation import StoredConversation
from roboco.domain.history.step import TOOL_EXECUTOR, TaskStep
from roboco.domain.ids import (
    answer_id,
    approval_id,
    change_id,
    check_item_id,
    fork_item_id,
    may_be_sub_task,
    qualified_id,
    sub_task_id,
    tenant_of,
)
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import StateConflict, UsageError
from roboco.gateway.gateway import Gateway
from roboco.gateway.idempotency import NewTaskId, are_answered, is_stored, reporting_reuse
from roboco.gateway.openai.files import check_accepted, store_files
from roboco.gateway.openai.ids import (
    ResponseId,
    conversation_id,
    is_item_of,
    split_call_id,
    task_of_conversation,
    unknown_conversation,
    unknown_response,
)
from roboco.gateway.openai.outputs import OutputItem
from roboco.gateway.openai.problems import unknown_model, wrong_parameter
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.openai.segment import begins_response, response_steps
from roboco.gateway.openai.task_now import TaskNow, read_state
from roboco.gateway.openai.turn import Answer, Decided, Resolved, Returned, Turn
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found
from roboco.gateway.teams import team_of_fork, team_of_new_task

KEY_REUSED: Final = "idempotency_key_reused"
MAX_NAMED: Final = 200
"""Characters of unknown calls that an error names: a client may send thousands."""


@dataclass(frozen=True)
class AcceptedTurn:
    """An accepted turn, and where its response begins."""

    task: Task
    start: ResponseStart
    cursor: str | None = None
    """The cursor from which the stream of the task holds the response; None for its begin."""


@dataclass(frozen=True)
class TurnRequest:
    """A request that brings a turn to a task."""

    gateway: Gateway
    caller: Principal
    repetition: Repetition
    team: str
    turn: Turn
    immediate: bool
    """True if its answer begins as soon as the turn is accepted."""
    task_options: dict[str, Any]
    """Options of a new task."""
    message_options: dict[str, Any]
    """Options of a message, such as the functions of the client and the form of the answer."""

    @property
    def of_message(self) -> dict[str, Any]:
        """The options of the message, with the caller."""
        return {**self.message_options, "by": self.caller.by}

    def item_id(self, task: Task, position: int) -> str:
        """Return the id of the message that becomes the step at a position of the task."""
        return self.repetition.item_id(task.task_id, position)


@dataclass(frozen=True)
class ForkPoint:
    """The task whose steps a branch begins with."""

    task: Task
    seq: int | None
    """Its last step in the branch; None for all steps."""


@dataclass(frozen=True)
class FoundConversation:
    """A conversation that the caller reaches. A task that has begun without a record has an empty one."""

    task_id: str
    """The id of its task, as the caller names it."""
    whole_id: str
    task: Task | None
    record: StoredConversation

    @property
    def items(self) -> list[OutputItem]:
        """The items that precede the responses."""
        return [one.item for one in self.record.items]

    def shown(self, record: StoredConversation | None = None) -> dict[str, Any]:
        """Return the conversation as a JSON object, with this record or its own."""
        record = record or self.record
        created = int(record.created_at.timestamp())
        shown = {"id": conversation_id(self.task_id), "object": "conversation", "created_at": created}
        return {**shown, "metadata": record.metadata}


async def accept_new(
    request: TurnRequest, task_id: str | None = None, begin: Callable[[], object] | None = None
) -> AcceptedTurn:
    """Submit a new task after `begin`, or find that of an earlier attempt at the request."""
    gateway, caller, repetition = request.gateway, request.caller, request.repetition
    caller.require(Scope.SUBMIT)
    position = len(request.turn.history)
    reads = gateway.calls.reads
    found = await reads.run(repetition.find_task, gateway.orchestrator, request.immediate) if task_id is None else None
    if found is not None:
        return AcceptedTurn(await gateway.task(caller, found), ResponseStart(position))
    new = _new_id(request, caller.tenant, task_id or repetition.new_task_id(), task_id is not None)
    options: dict[str, Any] = {
        **request.of_message,
        **request.task_options,
        "task_id": new.task_id,
        "tenant": caller.tenant,
    }
    if request.turn.history:
        options["history"] = [{"role": said.role, "text": said.text} for said in request.turn.history]

    def submit() -> Task:
        team = _team(request, new)
        check_accepted(team, request.turn.files)
        if begin is not None:
            begin()
        return gateway.orchestrator.run(team, request.turn.prompt, **options, **_early_files(request, new))

    task = await _created(request, new, submit)
    return AcceptedTurn(task, ResponseStart(position))


async def accept_after_response(request: TurnRequest, previous: ResponseId) -> AcceptedTurn:
    """Send the message after a response: to its task if it is the newest one and the task waits, else to a branch."""
    accepted = await send_after_response(request, previous)
    return accepted if isinstance(accepted, AcceptedTurn) else await fork(request, accepted)


async def send_after_response(request: TurnRequest, previous: ResponseId) -> AcceptedTurn | ForkPoint:
    """Send the message to the task of a response. Return where a branch begins, if it has to be sent to one."""
    gateway, caller = request.gateway, request.caller
    caller.require(Scope.CONTROL)
    task = await gateway.task(caller, previous.task_id)
    state = await gateway.calls.reads.run(read_state, task, previous.position)
    if not state.steps:
        raise unknown_response(str(previous))
    own, followed = response_steps(state.steps)
    end, newest = own[-1].seq + 1, not followed
    if (known := await _attempted_before(request, task, state, end)) is not None:
        return known
    if newest and state.cursor is not None:
        return await _send(request, task, state)
    if newest and not state.summary.status.ended:
        raise Problem(409, "response_in_progress", f"response {previous} has not ended", "wait for it, or cancel it")
    return ForkPoint(task, None if newest else end - 1)


def response_of_item(gateway: Gateway, caller: Principal, item_id: str) -> ResponseId:
    """Return the response that has this item. Raise Problem `not_found` if there is none."""
    task_id = split_call_id(item_id)[1]
    unknown = not_found(f"no item {item_id[:200]!r} of this gateway", "send the content of the item in place of its id")
    if not task_id:
        raise unknown
    start, before = 0, None
    for step in gateway.find_task(caller, task_id).steps():
        if before is not None and begins_response(step, before):
            start = step.seq
        if is_item_of(item_id, step, task_id):
            return ResponseId(task_id, start)
        before = step
    raise unknown


def find_conversation(gateway: Gateway, caller: Principal, name: str) -> FoundConversation:
    """Return the conversation of an id. Raise Problem `not_found` if the caller has none. It blocks.

    One without a task belongs to its caller alone if that is limited to some teams.
    """
    task_id = task_of_conversation(name)
    try:
        whole_id = caller.task_id(task_id)
        record = gateway.orchestrator.conversation(whole_id)
        task = gateway.find_task(caller, task_id) if record is None or gateway.exists(whole_id) else None
    except Problem as problem:
        raise (unknown_conversation(name) if problem.status == 404 else problem) from None
    if record is None and task is not None:
        began = task.stored_summary().created_at
        record = StoredConversation(by=caller.by, created_at=began, changed_at=began)
    if record is None or record.deleted or (task is None and caller.teams is not None and record.by != caller.by):
        raise unknown_conversation(name)
    return FoundConversation(task_id, whole_id, task, record)


def _begin_conversation(gateway: Gateway, caller: Principal, found: FoundConversation, first: str) -> None:
    """Let a first message take the items as they were found. Raise StateConflict if they have changed."""
    items, change_record = found.record.items, gateway.orchestrator.change_conversation
    change_record(found.whole_id, caller.by, lambda record, now: record.begun(items, first, now), found.record)


async def accept_in_conversation(request: TurnRequest, found: FoundConversation, earlier: Turn) -> AcceptedTurn:
    """Send the message to the task of a conversation, or submit its first one after what is `earlier` in it."""
    gateway, caller, task, repetition = request.gateway, request.caller, found.task, request.repetition
    item_id = repetition.item_id(found.whole_id, 0)
    if task is None:
        turn = replace(request.turn, history=earlier.history, files=(*earlier.files, *request.turn.files))
        begin = partial(_begin_conversation, gateway, caller, found, f"{item_id} {repetition.digest}")
        return await accept_new(replace(request, turn=turn), found.task_id, begin)
    state = await gateway.calls.reads.run(read_state, task, 0 if repetition.may_repeat else None)
    starts = [step.seq for step in state.steps if "item_id" in step.metadata]
    if (known := await _attempted_before(request, task, state, max(starts, default=0))) is not None:
        return known
    position = len(earlier.history)
    began = not state.steps[position:] or state.steps[position].text == request.turn.prompt
    digests = dict(line.split(" ", 1) for line in found.record.first.splitlines())
    recent = not starts and state.summary.created_at >= repetition.since(request.immediate)
    if repetition.may_repeat and item_id in digests and (recent or repetition.key is not None):
        if digests[item_id] != repetition.digest:
            detail = "the key was used for the first message of the conversation"
            raise Problem(422, KEY_REUSED, detail, "use another Idempotency-Key")
        if began:  # else another message was faster
            return AcceptedTurn(task, ResponseStart(position))
    caller.require(Scope.CONTROL)
    if state.cursor is not None:
        return await _send(request, task, state)
    named = conversation_id(found.task_id)
    if state.summary.status.ended:
        remedy = "continue after its last response with previous_response_id, in a branch"
        raise Problem(409, "ended", f"conversation {named!r} has ended", remedy)
    raise Problem(409, "conversation_locked", f"conversation {named!r} is at work", "wait for its response")


def _new_id(request: TurnRequest, tenant: str | None, task_id: str, named: bool = False) -> NewTaskId:
    """Return the whole id of a new task. Another request may have it if the client names it, or sends a key."""
    return NewTaskId(qualified_id(tenant, task_id), named or request.repetition.key is not None)


def _team(request: TurnRequest, new: NewTaskId) -> Team:
    """Return the team of the request. Raise Problem `model_not_found` if the caller has none of this name."""
    try:
        return team_of_new_task(request.gateway.orchestrator, request.caller, new, request.team)
    except Problem as problem:
        raise unknown_model(request.team) if problem.status == 404 else problem from None


async def _created(request: TurnRequest, new: NewTaskId, create: Callable[[], Task]) -> Task:
    """Create a task, and return it. A key that was used for another request raises Problem 422."""
    gateway = request.gateway

    def created() -> Task:
        with reporting_reuse(request.repetition.key, lambda: gateway.exists(new.task_id), KEY_REUSED):
            return create()

    return await gateway.create_task(request.caller, new, created)


def _has_file(request: TurnRequest, new: NewTaskId, name: str) -> bool:
    """Return True if an earlier attempt at the request has stored the file of its new task.

    Raise StateConflict if another request has created the task: it may be one that the caller does not reach.
    """
    orchestrator = request.gateway.orchestrator
    if not new.repeatable:
        return False
    early = orchestrator.early_files(new.task_id, request.caller.by)
    if early is not None:
        return any(file.name == name for file in early)
    try:
        task = orchestrator.task(new.task_id)
    except UsageError:
        return False
    if not _is_file_of(task, name):
        raise StateConflict(f"task {new.task_id!r} was created without the file {name!r}")
    return True


def _is_file_of(task: Task, name: str) -> bool:
    try:
        task.artifact_info(name)
    except UsageError:
        return False
    return True


def _early_files(request: TurnRequest, new: NewTaskId) -> dict[str, Any]:
    """Store the files of the message before its task is created. Return the option of the message."""

    def upload(data: BinaryIO, name: str) -> None:
        request.gateway.orchestrator.upload(new.task_id, data, name, by=request.caller.by)

    return store_files(request.turn.files, partial(_has_file, request, new), upload)


async def _attempted_before(request: TurnRequest, task: Task, state: TaskNow, position: int) -> AcceptedTurn | None:
    """Return the response of an earlier attempt, if the step at this position is its message, or None.

    Raise Problem 422 if the message has the request's key, and differs.
    """
    repetition = request.repetition
    if not repetition.may_repeat:
        return None
    item_id = request.item_id(task, position)
    found = next((step for step in state.steps if step.metadata.get("item_id") == item_id), None)
    if found is None or (repetition.key is None and found.created_at < repetition.since(request.immediate)):
        return None
    if repetition.key is not None:
        await _store_message(request, task, item_id)  # it is stored: this compares the contents
    return AcceptedTurn(task, ResponseStart(found.seq))


async def _send(request: TurnRequest, task: Task, state: TaskNow) -> AcceptedTurn:
    if state.last.calls:
        refuse_open_calls(request, [call.id for call in state.last.calls])
    if state.summary.status is TaskStatus.PAUSED:
        await request.gateway.calls.reads.run(check_within_limits, task)
    position = state.last.seq + 1
    item_id = request.item_id(task, position)
    await request.gateway.admit_message(request.caller, lambda: is_stored(task, item_id))
    await _store_message(request, task, item_id)
    return AcceptedTurn(task, ResponseStart(position, item_id, state.last), state.cursor)


async def _store_message(request: TurnRequest, task: Task, item_id: str) -> None:
    """Send the message. Raise Problem 422 if another one was sent with the key of the request."""

    def send() -> None:
        if request.turn.files:
            check_accepted(task.team(), request.turn.files)
        files = store_files(request.turn.files, partial(_is_file_of, task), task.upload)
        with reporting_reuse(request.repetition.key, lambda: is_stored(task, item_id), KEY_REUSED):
            task.send(request.turn.prompt, item_id=item_id, **request.of_message, **files)

    await request.gateway.calls.controls.run(send)


def check_within_limits(task: Task) -> None:
    """Raise Problem if the task is paused at a limit: a message would wait until an operator raises it."""
    if task.pending_actions().at_limit():
        detail = f"task {task.task_id!r} is paused at a limit: {task.summary().reason}"
        raise Problem(409, "limit_reached", detail, "raise the limit with the REST API, and send the message again")


async def fork(request: TurnRequest, point: ForkPoint) -> AcceptedTurn:
    """Send the message to a new task with the steps of another, or find that of an earlier attempt."""
    gateway, repetition, task, seq = request.gateway, request.repetition, point.task, point.seq
    found = await gateway.calls.reads.run(repetition.find_task, gateway.orchestrator, request.immediate)
    if found is not None:
        known = await gateway.task(request.caller, found)
        return AcceptedTurn(known, ResponseStart(item_id=fork_item_id(known.task_id)))
    named = repetition.new_task_id(f"{task.task_id}/{seq}")
    new = _new_id(request, tenant_of(task.task_id) or None, named)
    options = {**request.of_message, "task_id": new.task_id}

    def branch_off() -> Task:
        team = task.team()
        check_accepted(team, request.turn.files)
        files = _early_files(request, new)
        return task.fork(seq, request.turn.prompt, team=team_of_fork(request.caller, team), **options, **files)

    branch = await _created(request, new, branch_off)
    return AcceptedTurn(branch, ResponseStart(item_id=fork_item_id(branch.task_id)))


def refuse_open_calls(request: TurnRequest, call_ids: Sequence[str]) -> None:
    """Raise Problem: these calls have to be answered first."""
    named = ", ".join(call_ids)
    raise wrong_parameter(request.turn.param, f"no output found for the calls {named}", "answer all calls at once")


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
