"""chats: bring a request of the AI SDK, AG-UI or A2A to the task of its chat.

    no task of the chat ──────────────────────► new task, with the earlier messages as its history
    answers and decisions in the last message ─► the calls that wait for them
    message after the newest answer ──────────► sent to its task, also while that works, or to a fork after its end
    message after an older answer, or again ──► a branch: the next task of the chat

A client sends all messages with each request. Of a chat with a task only the last one counts: the history has the rest.
The id of an assistant's message names the answer after which the request continues. What if a request arrives twice:
its message has the same inbox item, or is that of the newest branch, and counts once. An answer that is asked for again
twice has two branches.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from roboco.client.task import Task
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import qualified_id
from roboco.errors import AlreadyEnded, Erased, StateConflict, UsageError
from roboco.gateway.answers.following import unapproved_in_sub_tasks
from roboco.gateway.answers.ids import ITEM_PREFIX, first_task_id, response_of, task_id_of_branch
from roboco.gateway.gateway import Gateway
from roboco.gateway.idempotency import NewTaskId, is_stored
from roboco.gateway.openai import accepting
from roboco.gateway.openai.accepting import AcceptedTurn, TurnRequest
from roboco.gateway.openai.ids import ResponseId, split_call_id
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.openai.task_now import read_state
from roboco.gateway.openai.tools import client_tools
from roboco.gateway.openai.turn import Answer, Decided, Entry, Returned, Said, Turn, turn_of
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found, unavailable
from roboco.gateway.request_log import record_operation
from roboco.gateway.teams import named_team, team_of_fork

MAX_BRANCHES: Final = 1000
"""The most tasks of a chat."""
_POWERS: Final = [2**power for power in range(MAX_BRANCHES.bit_length())]
GROWTH_PAUSES: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each look for a task that another message begins."""
Message = dict[str, Any]


@dataclass(frozen=True)
class Chat:
    """A chat of a caller with a team, and the number of its tasks."""

    gateway: Gateway
    caller: Principal
    team: str
    first: str
    """The id of its first task, without the tenant's prefix."""
    tasks: int

    @property
    def newest(self) -> str:
        """The id of its newest task."""
        return task_id_of_branch(self.first, self.tasks)

    @property
    def next(self) -> str:
        """The id of its next task. Raise Problem if the chat has too many."""
        if self.tasks >= MAX_BRANCHES:
            raise Problem(409, "conflict", f"the chat has {MAX_BRANCHES} branches", "begin another chat")
        return task_id_of_branch(self.first, self.tasks + 1)

    def has(self, task_id: str) -> bool:
        """Return True if the task, as its caller names it, is one of this chat."""
        name, _, number = task_id.removeprefix(self.first).partition("_")
        known = task_id.startswith(self.first) and not name and (not number or number.isdecimal())
        return known and int(number or 1) <= self.tasks


async def chat_of(gateway: Gateway, caller: Principal, team: str, chat: str) -> Chat:
    """Return the chat. Cost: reads of summaries, with the logarithm of the number of its branches."""
    return await chat_of_task(gateway, caller, team, first_task_id(caller.tenant, team, chat))


async def chat_of_task(gateway: Gateway, caller: Principal, team: str, first: str) -> Chat:
    """Return the chat that begins with this task. Raise Problem `conflict` if its tasks are another team's."""
    tasks = await gateway.calls.reads.run(_count, gateway, caller, first)
    chat = Chat(gateway, caller, team, first, tasks)
    if tasks:
        await gateway.calls.reads.run(_check_team, chat)
    return chat


def _check_team(chat: Chat) -> None:
    """Raise Problem if the newest task is another team's. The file of a team may have another name than the team."""
    with suppress(Erased):
        summary = chat.gateway.orchestrator.stored_summary(chat.caller.task_id(chat.newest))
        if summary is None or summary.team == chat.team:
            return
        if summary.team != named_team(chat.gateway.orchestrator, chat.caller, chat.team).name:
            raise Problem(409, "conflict", "the chat belongs to another team", "begin another chat")


async def unless_taken(creating: Awaitable[AcceptedTurn]) -> AcceptedTurn | None:
    """Return the turn with which a new task begins, or None if another message has the id of the task."""
    try:
        return await creating
    except (StateConflict, Erased):
        return None
    except Problem as problem:
        if problem.code != accepting.KEY_REUSED:
            raise
        return None


async def grown(chat: Chat) -> Chat:
    """Return the chat with the task that another message begins at this moment.

    The first files of a task make its id known, and the summary, by which tasks are counted, follows. Raise Problem
    `unavailable` if it does not: that message, sent again, completes its task.
    """
    for pause in GROWTH_PAUSES:
        await asyncio.sleep(pause)
        now = await chat_of_task(chat.gateway, chat.caller, chat.team, chat.first)
        if now.tasks > chat.tasks:
            return now
    raise unavailable("another message begins the next task of the chat")


def _count(gateway: Gateway, caller: Principal, first: str) -> int:
    """Return the number of tasks of a chat: they are numbered without gaps. Erased ones count."""

    def exists(number: int) -> bool:
        try:
            gateway.orchestrator.stored_task(qualified_id(caller.tenant, task_id_of_branch(first, number)))
        except UsageError as error:
            return isinstance(error, Erased)
        return True

    unknown = next((number for number in _POWERS if not exists(number)), MAX_BRANCHES + 1)
    return bisect_left(range(unknown), True, unknown // 2 + 1, key=lambda number: not exists(number)) - 1


@dataclass(frozen=True)
class _ChatRepetition(Repetition):
    """The identity of a request of a chat: its inbox item derives from its message, and its new task from the chat."""

    next_task: str = ""

    def new_task_id(self, scope: str = "") -> str:
        """Return the id of the next task of the chat."""
        return self.next_task

    def item_id(self, task_id: str, position: int) -> str:
        """Return the id of the message of this request."""
        return f"{ITEM_PREFIX}{super().item_id(task_id, position)}"


def chat_request(
    gateway: Gateway,
    caller: Principal,
    team: str,
    tools: Iterable[dict[str, Any]],
    message_options: dict[str, Any],
    **task_options: Any,
) -> TurnRequest:
    """Return the request of a chat, whose turn follows. `tools` are those that the client runs."""
    functions = client_tools([{"type": "function", **tool} for tool in tools], nested=False)
    return TurnRequest(
        gateway=gateway,
        caller=caller,
        repetition=Repetition(caller),
        team=team,
        turn=Turn(),
        immediate=True,
        task_options={"conversation": True, **task_options},
        message_options={**message_options, **({"client_tools": functions} if functions else {})},
    )


async def accept(
    request: TurnRequest, chat: Chat, messages: Sequence[Message], again: bool
) -> tuple[AcceptedTurn, str]:
    """Bring the last message to the task of the chat. Return the turn, and the id of the message that it continues.

    `again` says that the client asks for another answer to it.
    """
    last = messages[-1]
    if last.get("role") == "assistant":
        return await _accept_answers(request, chat, last), str(last["id"])
    turn = turn_of(entries_of(messages), "messages", continues=False)
    found = (response_of(str(one.get("id"))) for one in reversed(messages) if one.get("role") == "assistant")
    previous = next((one for one in found if one is not None and chat.has(one.task_id)), None)
    identity = canonical_json([chat.first, last.get("id"), turn.prompt, again, len(messages) if again else 0])
    repetition = _ChatRepetition(chat.caller, sha256(identity), identity)
    request = replace(request, turn=turn, repetition=repetition)
    if previous is None and chat.tasks and not again and len(messages) > 1:
        return _recorded(await _send_to_newest(request, chat)), ""
    return _recorded(await _accept_in_branch(request, repetition, chat, previous, again)), ""


def _recorded(accepted: AcceptedTurn) -> AcceptedTurn:
    record_operation(task=accepted.task.task_id)
    return accepted


async def _accept_in_branch(
    request: TurnRequest, repetition: _ChatRepetition, chat: Chat, previous: ResponseId | None, again: bool
) -> AcceptedTurn:
    """Bring the message to its task: it may have begun the newest branch. If its next one is taken, try that after."""
    branches = [chat.newest] if chat.tasks > 1 and not again else []
    for branch in (*branches, chat.next):
        request = replace(request, repetition=replace(repetition, next_task=branch))
        if (accepted := await _accept_message(request, chat, previous, again)) is not None:
            return accepted
    return await _accept_in_branch(request, repetition, await grown(chat), previous, again)


async def _accept_message(
    request: TurnRequest, chat: Chat, previous: ResponseId | None, again: bool
) -> AcceptedTurn | None:
    """Bring the message after an answer, or a first one, to its task, or to a branch with the id of the request.

    Return None if another message has that id.
    """
    if previous is None:
        return await _accept_first(request, chat, again)
    try:
        accepted = await accepting.send_after_response(request, previous)
    except Problem as problem:
        if problem.code == accepting.KEY_REUSED:
            detail = "a message with this id and text was sent before, with other tools or options"
            raise Problem(409, "conflict", detail, "use another id for each message") from problem
        if problem.code != "response_in_progress":
            raise
        return await _send_to_newest(request, chat)
    return accepted if isinstance(accepted, AcceptedTurn) else await unless_taken(accepting.fork(request, accepted))


async def _accept_first(request: TurnRequest, chat: Chat, again: bool) -> AcceptedTurn | None:
    """Submit the first message of a chat, or find its task. If it differs, or is sent again, it has another task.

    Return None if another message has that task.
    """
    if not again and (accepted := await unless_taken(accepting.accept_new(request, chat.first))) is not None:
        return accepted
    return await unless_taken(accepting.accept_new(request, request.repetition.new_task_id()))


async def _send_to_newest(request: TurnRequest, chat: Chat) -> AcceptedTurn:
    """Send the message to the newest task, which may be at work, or to a fork of it if it has ended."""
    task = await chat.gateway.task(chat.caller, chat.newest)
    with suppress(AlreadyEnded):
        return await send_to_task(request, task)
    item_id = request.repetition.item_id(chat.caller.task_id(chat.next), 0)
    if (accepted := await unless_taken(fork_ended(request, task, chat, item_id))) is not None:
        return accepted
    return await _send_to_newest(request, await grown(chat))


async def fork_ended(request: TurnRequest, task: Task, chat: Chat, item_id: str) -> AcceptedTurn:
    """Begin the next task of the chat with the message, after the steps of its newest one."""
    caller = chat.caller
    caller.require(Scope.CONTROL)
    new = NewTaskId(caller.task_id(chat.next), repeatable=True)

    def branch_off() -> Task:
        team = team_of_fork(caller, task.team())
        options: dict[str, Any] = {"task_id": new.task_id, "item_id": item_id, **request.of_message}
        return task.fork(None, request.turn.prompt, team=team, **options)

    return AcceptedTurn(await chat.gateway.create_task(caller, new, branch_off), ResponseStart(item_id=item_id))


async def send_to_task(request: TurnRequest, task: Task) -> AcceptedTurn:
    """Send the message to a task, whose agents read it after their step. Raise AlreadyEnded if it has ended."""
    gateway, caller = request.gateway, request.caller
    caller.require(Scope.CONTROL)
    item_id = request.item_id(task, 0)
    known = await gateway.calls.reads.run(is_stored, task, item_id)  # then its answer is followed from the begin
    cursor = None if known else await gateway.calls.reads.run(task.recent_cursor)
    last = None if known else await gateway.calls.reads.run(_last_step, request, task)
    await gateway.admit_message(caller, lambda: is_stored(task, item_id))
    options = request.of_message
    await gateway.calls.controls.run(task.send, request.turn.prompt, item_id=item_id, **options)
    return AcceptedTurn(task, ResponseStart(item_id=item_id, before=last), cursor)


def _last_step(request: TurnRequest, task: Task) -> TaskStep:
    """Return the newest step. Raise Problem if a message would wait for a person or the client, who answer first."""
    accepting.check_within_limits(task)
    state = read_state(task, None)
    if state.cursor is None:  # it works, or is about to
        calls = [one.call for one in unapproved_in_sub_tasks(task, task.task_id)]
    else:
        pending = task.pending_actions()
        calls = [*pending.unanswered(), *pending.unapproved(), *pending.unknown()]
    if calls and (request.message_options.get("if_busy") or task.team().if_busy) != "interrupt":
        accepting.refuse_open_calls(request, [call.id for call in calls])
    return state.last


async def _accept_answers(request: TurnRequest, chat: Chat, message: Message) -> AcceptedTurn:
    found = response_of(str(message.get("id")))
    if found is None or not chat.has(found.task_id):
        raise wrong_parameter("messages", "the last message is none of this chat's", "end with a message of the user")
    parts = _parts_of(message)
    begin = max((index for index, part in enumerate(parts) if part.get("type") == "step-start"), default=0)
    answers = tuple(_answers(parts[begin:]))
    if earlier := [one for one in _answers(parts[:begin]) if isinstance(one, Returned)]:
        # Results of a step before that of a sub-task's approval are not sent yet.
        answers += tuple(await still_waited_for(chat, found.task_id, earlier))
    if not answers:
        raise wrong_parameter("messages", "the last message has no result of a tool and no decision")
    return await accept_answers(request, chat, found.task_id, answers)


async def still_waited_for(chat: Chat, task_id: str, results: Sequence[Returned]) -> list[Returned]:
    """Return the results of calls for which a task of the chat waits."""
    task = await chat.gateway.task(chat.caller, task_id)
    calls = await chat.gateway.calls.reads.run(lambda: task.pending_actions().unanswered())
    waiting = {call.id for call in calls}
    return [one for one in results if split_call_id(one.call_id)[0] in waiting]


async def accept_answers(request: TurnRequest, chat: Chat, task_id: str, answers: tuple[Answer, ...]) -> AcceptedTurn:
    """Bring results and decisions to the calls that wait for them in a task of the chat."""
    if not chat.tasks:
        raise wrong_parameter("messages", "the chat has no task that waits for results", "send a message first")
    turn = Turn(answers=answers, param="messages")
    return _recorded(await accepting.accept_answers(replace(request, turn=turn), task_id))


async def stop_chat(chat: Chat) -> dict[str, str | None]:
    """End the work on the newest message of the chat. Return its task, and the effect."""
    chat.caller.require(Scope.CONTROL)
    if not chat.tasks:
        raise not_found("the chat has no task", "send a message first")
    task = await chat.gateway.task(chat.caller, chat.newest)
    record_operation(task=task.task_id)
    seconds = chat.gateway.settings.call_timeout / 2
    receipt = await chat.gateway.calls.controls.run(task.interrupt, timeout=seconds, by=chat.caller.by)
    return {"taskId": chat.newest, "effect": receipt.effect}


def _parts_of(message: Message) -> list[dict[str, Any]]:
    given = message.get("parts")
    return [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []


def _answers(parts: Sequence[dict[str, Any]]) -> Iterator[Answer]:
    """Yield the answers to calls in parts of an assistant's message."""
    for part in parts:
        match part:
            case {"state": "approval-responded", "approval": {"id": str(call_id), "approved": bool(approved), **rest}}:
                yield Decided(call_id, approved, str(rest.get("reason") or ""))
            case {"providerExecuted": True}:
                continue
            case {"state": "output-available", "toolCallId": str(call_id), "output": str(output)}:
                yield Returned(call_id, output)
            case {"state": "output-available", "toolCallId": str(call_id), **rest}:
                yield Returned(call_id, canonical_json(rest.get("output")))
            case {"state": "output-error", "toolCallId": str(call_id), **rest}:
                yield Returned(call_id, f"error: {rest.get('errorText') or 'the tool failed'}")
            case _:
                pass


def entries_of(messages: Sequence[Message]) -> Iterator[Entry]:
    """Yield the texts of the user's and the assistant's messages. Raise Problem for a part that cannot be sent."""
    for index, message in enumerate(messages):
        role, parts = message.get("role"), message.get("parts")
        if role not in ("user", "assistant", "system") or not isinstance(parts, list):
            raise wrong_parameter(f"messages.{index}", "must have the role user, assistant or system, and parts")
        texts = [part["text"] for part in parts if _is_text(part)]
        if role == "user" and any(isinstance(part, dict) and part.get("type") == "file" for part in parts):
            remedy = "upload files to a task with the REST API, or put links into the text"
            raise wrong_parameter(f"messages.{index}.parts", "files are not supported", remedy)
        if role != "system":  # the instructions are those of the team
            yield Said(role, "\n\n".join(texts))


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
