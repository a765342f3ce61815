"""agent: the operations of A2A on a team. All that they need is in the histories: any gateway process serves them.

Nothing is stored for a context, since ids derive from ids:

    a2a_CONTEXT    the task of the first message           no contextId ─► new-DIGEST of the message's id
    a2a_CONTEXT_2  the next one: a fork of the one before, once that has ended
    a2a-DIGEST     the item of a message in a task: the same message again has the same one, and counts once

A message for a task that is open goes to that task. Data with a `callId` answer its calls.
"""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, Final

from a2a import types as a2a
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict

from roboco.client.task import Task
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.step import TaskStep
from roboco.domain.notification import NotifyTarget
from roboco.domain.push_notification import task_state
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.errors import AlreadyEnded, CorruptHistory, UsageError
from roboco.gateway.a2a import push
from roboco.gateway.a2a import task_events as events
from roboco.gateway.a2a.message_parts import answers_of, text_of
from roboco.gateway.answers.answer_stream import AnswerStream
from roboco.gateway.answers.chats import Chat, chat_of_task, fork_ended, grown, send_to_task, unless_taken
from roboco.gateway.answers.following import answer_parts, unapproved_in_sub_tasks
from roboco.gateway.answers.ids import task_id_of_branch
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai import accepting
from roboco.gateway.openai.accepting import AcceptedTurn, TurnRequest
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.openai.tools import client_tools
from roboco.gateway.openai.turn import Turn
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, invalid, unavailable

DEFAULT_PAGE: Final = 50
MAX_PAGE: Final = 100
MAX_WHOLE_PAGE: Final = 10
"""The most tasks of a page with artifacts or messages: the history of each is read."""
_ITEM: Final = "a2a-"
_FIRST: Final = "a2a-first-"
"""The beginning of the item of a message with which a task begins."""
_TASK: Final = re.compile(r"a2a_([A-Za-z0-9][A-Za-z0-9-]{0,47})(?:_[1-9][0-9]{0,3})?")


@dataclass(frozen=True)
class MessageId(Repetition):
    """The identity of a message."""

    def item_id(self, task_id: str, position: int) -> str:
        """Return the id of the item of the message."""
        return f"{_ITEM}{self.digest[:32]}"


@dataclass(frozen=True)
class MessageRequest(TurnRequest):
    """A message. `if_busy` says what becomes of the current step of its task; None if the team says so."""

    if_busy: Any = None
    check: Callable[[Task], None] | None = None
    """It raises if the message must not go to this task, or to the next one after it. Nothing is stored before."""


def context_of(task_id: str) -> str | None:
    """Return the context of a task, as its caller names it, or None if it is no task of A2A."""
    match = _TASK.fullmatch(task_id)
    return None if match is None else match[1]


def first_task_of(context_id: str) -> str:
    """Return the id of the first task of a context. Raise Problem if the id of the context is not allowed."""
    if context_of(task_id := f"a2a_{context_id}") != context_id:
        raise invalid("contextId must have 1 to 48 letters, digits and '-'", "leave it out to begin a new context")
    return task_id


def own_begin(steps: list[TaskStep]) -> int:
    """Return the position of the message with which the task began: a fork has the steps before it, too."""
    return max((step.seq for step in steps if str(step.metadata.get("item_id", "")).startswith(_FIRST)), default=0)


@dataclass(frozen=True)
class TeamAgent:
    """A team as the agent of a caller. `base` is the address of the gateway."""

    gateway: Gateway
    caller: Principal
    team: str
    base: str

    async def send(self, params: a2a.SendMessageRequest) -> AcceptedTurn:
        """Accept a message."""
        message, options = params.message, MessageToDict(params.message.metadata)
        if not message.message_id or not message.parts:
            raise invalid("a message must have a messageId and parts")
        found = await self._task(message.task_id) if message.task_id else None
        config = params.configuration.task_push_notification_config
        if configured := params.configuration.HasField("task_push_notification_config"):
            self.caller.require(Scope.NOTIFY)
            push.receiver_of(config, "a2a_new", "new")  # before the message: a wrong one leaves nothing
        tools = options.get("clientTools")
        if tools is not None and not (isinstance(tools, list) and all(isinstance(one, dict) for one in tools)):
            raise invalid("metadata.clientTools must be a list of objects")
        functions = client_tools([{"type": "function", **tool} for tool in tools or ()], nested=False)
        request = MessageRequest(
            gateway=self.gateway,
            caller=self.caller,
            repetition=Repetition(self.caller),
            team=self.team,
            turn=Turn(),
            immediate=True,
            task_options={"context": options.get("context"), "notify": []},
            message_options={"client_tools": functions} if functions else {},
            if_busy=options.get("ifBusy"),
            check=(lambda task: push.check(task, self._receiver(task, config))) if configured else None,
        )
        accepted = await _accept(request, message, found)
        if configured:
            await self._set_config(accepted.task, config)
        return accepted

    async def create_config(self, params: a2a.TaskPushNotificationConfig) -> a2a.TaskPushNotificationConfig:
        """Add a push notification configuration, or replace that with its id."""
        task = await self._configured(params.task_id)
        if (await self.gateway.calls.reads.run(task.summary)).status.ended:
            raise a2a.UnsupportedOperationError("the task has ended: get it")
        await self.gateway.calls.histories.run(push.check, task, self._receiver(task, params))
        return await self._set_config(task, params)

    async def get_config(self, params: a2a.GetTaskPushNotificationConfigRequest) -> a2a.TaskPushNotificationConfig:
        """Return a configuration."""
        found = (await self.configs(a2a.ListTaskPushNotificationConfigsRequest(task_id=params.task_id))).configs
        if (one := next((one for one in found if one.id == params.id), None)) is None:
            raise a2a.TaskNotFoundError("the task has no configuration of this id")
        return one

    async def configs(
        self, params: a2a.ListTaskPushNotificationConfigsRequest
    ) -> a2a.ListTaskPushNotificationConfigsResponse:
        """Return all configurations of a task: they are few."""
        task = await self._configured(params.task_id)
        found = await self.gateway.calls.reads.run(task.push_receivers)
        return a2a.ListTaskPushNotificationConfigsResponse(configs=map(push.config_of, found))

    async def delete_config(self, params: a2a.DeleteTaskPushNotificationConfigRequest) -> Empty:
        """Remove a configuration. A repetition changes nothing."""
        task = await self._configured(params.task_id)
        await self.gateway.calls.controls.run(task.remove_push_receiver, params.id, by=self.caller.by)
        return Empty()

    async def extended_card(self, params: a2a.GetExtendedAgentCardRequest) -> a2a.AgentCard:
        """Raise UnsupportedOperationError: a card has all that its caller may know."""
        raise a2a.UnsupportedOperationError("there is no extended card")

    async def _configured(self, task_id: str) -> Task:
        self.caller.require(Scope.NOTIFY)
        return await self._task(task_id)

    async def _set_config(self, task: Task, config: a2a.TaskPushNotificationConfig) -> a2a.TaskPushNotificationConfig:
        receiver = self._receiver(task, config)
        await self.gateway.calls.controls.run(task.set_push_receiver, receiver, by=self.caller.by)
        return push.config_of(receiver)

    def _receiver(self, task: Task, config: a2a.TaskPushNotificationConfig) -> NotifyTarget:
        shown = shown_task_id(self.caller, task.task_id)
        return push.receiver_of(config, shown, context_of(shown) or "")

    async def get(self, params: a2a.GetTaskRequest) -> a2a.Task:
        """Return a task with its artifacts."""
        length = params.history_length if params.HasField("history_length") else None
        return await self.whole(await self._task(params.id), length)

    async def whole(self, task: Task, history: int | None) -> a2a.Task:
        """Return a task with its artifacts, and this number of its newest messages; None for all."""
        return await self.gateway.calls.histories.run(self._shown, task, history, True)

    async def cancel(self, params: a2a.CancelTaskRequest) -> a2a.Task:
        """Stop a task. It is returned once its end is recorded, or after some seconds as it is."""
        self.caller.require(Scope.CONTROL)
        task = await self._task(params.id)
        status = (await self.gateway.calls.reads.run(task.summary)).status
        if status.ended and status is not TaskStatus.CANCELLED:
            raise a2a.TaskNotCancelableError(f"the task is {status}")
        if not status.ended:
            await self.gateway.calls.controls.run(task.stop, "canceled by its client", by=self.caller.by)
            with suppress(TimeoutError):  # its end follows: the state says so
                await task.aresult(self.gateway.settings.call_timeout / 2)
        return await self.whole(task, 0)

    async def tasks(self, params: a2a.ListTasksRequest) -> a2a.ListTasksResponse:
        """Return a page of tasks, the latest change of a status first; of a context, the newest first.

        Erased tasks, and those with a damaged history, are left out.
        """
        size = params.page_size if params.HasField("page_size") else DEFAULT_PAGE
        if not 0 < size <= MAX_PAGE:
            raise invalid(f"pageSize must be 1 to {MAX_PAGE}")
        size = min(size, MAX_WHOLE_PAGE) if params.include_artifacts or params.history_length else size
        found, token = await (self._of_context(params, size) if params.context_id else self._page(params, size))
        page = a2a.ListTasksResponse(next_page_token=token, page_size=size, total_size=len(found))
        for task_id in found:
            try:
                task, whole = await self._task(task_id), params.include_artifacts
                shown = await self.gateway.calls.histories.run(self._shown, task, params.history_length, whole)
            except (a2a.TaskNotFoundError, Problem, UsageError, CorruptHistory) as error:
                if isinstance(error, Problem) and error.status != 404:
                    raise
                continue
            if params.status in (a2a.TaskState.TASK_STATE_UNSPECIFIED, shown.status.state):
                page.tasks.append(shown)
        return page

    async def _page(self, params: a2a.ListTasksRequest, size: int) -> tuple[list[str], str]:
        filters: dict[str, Any] = {"tenant": self.caller.tenant, "team": self.team}
        if params.HasField("status_timestamp_after"):
            filters["since"] = params.status_timestamp_after.ToDatetime(tzinfo=UTC)
        orchestrator = self.gateway.orchestrator
        page = await self.gateway.calls.reads.run(
            lambda: orchestrator.task_page(limit=size, cursor=params.page_token, **filters)
        )
        ids = [one.task_id for one in page.entries if context_of(shown_task_id(self.caller, one.task_id))]
        return ids, page.cursor

    async def _of_context(self, params: a2a.ListTasksRequest, size: int) -> tuple[list[str], str]:
        try:
            chat = await chat_of_task(self.gateway, self.caller, self.team, first_task_of(params.context_id))
        except Problem as problem:
            if problem.code != "conflict":
                raise
            return [], ""  # of another agent
        last = min(int(params.page_token[:9]), chat.tasks) if params.page_token.isdecimal() else chat.tasks
        numbers = range(last, max(0, last - size), -1)
        found = [task_id_of_branch(chat.first, number) for number in numbers]
        return found, str(last - size) if last > size else ""

    async def subscribed(self, params: a2a.SubscribeToTaskRequest) -> AcceptedTurn:
        """Return a task from its begin. Raise UnsupportedOperationError if it has ended: it is read then."""
        task = await self._task(params.id)
        if (await self.gateway.calls.reads.run(task.summary)).status.ended:
            raise a2a.UnsupportedOperationError("the task has ended: get it")
        steps = await self.gateway.calls.histories.run(lambda: list(task.steps()))
        return AcceptedTurn(task, ResponseStart(own_begin(steps)))

    async def events(self, accepted: AcceptedTurn) -> AsyncGenerator[a2a.StreamResponse, None]:
        """Yield the task, and its events until it waits or has ended. Raise Problem if it goes on after that."""
        task, shown = accepted.task, self._head(accepted.task, "TASK_STATE_WORKING")
        yield a2a.StreamResponse(task=shown)
        answer = AnswerStream(ResponseHead(shown.id, self.team), accepted.start)
        stream = events.TaskEvents(shown.id, shown.context_id, self._files(shown.id))
        async with aclosing(answer_parts(self.gateway, task, answer, accepted.cursor, goes_on=True)) as parts:
            async for part in parts:
                for event in stream.events(part):
                    yield event
        status = (await self.whole(task, 0)).status
        if status.state in (a2a.TaskState.TASK_STATE_WORKING, a2a.TaskState.TASK_STATE_SUBMITTED):
            raise unavailable("the task goes on: subscribe to it")
        yield stream.status(status)

    async def _task(self, task_id: str) -> Task:
        """Return a task of this agent. Raise TaskNotFoundError if it is none of the caller, or another agent's."""
        if context_of(shown_task_id(self.caller, task_id)) is None:
            raise a2a.TaskNotFoundError
        task = await self.gateway.task(self.caller, task_id)
        if (await self.gateway.calls.reads.run(task.stored_summary)).team != self.team:
            raise a2a.TaskNotFoundError
        return task

    def _files(self, task_id: str) -> str:
        return f"{self.base}/v1/tasks/{task_id}/files"

    def _head(self, task: Task, state: str) -> a2a.Task:
        shown = shown_task_id(self.caller, task.task_id)
        return a2a.Task(id=shown, context_id=context_of(shown) or "", status=a2a.TaskStatus(state=state))

    def _shown(self, task: Task, history: int | None, whole: bool) -> a2a.Task:
        """Return the task; `whole` with its artifacts, and the message of its status. It blocks."""
        summary = task.summary()
        asked = self._asked_below(task) if summary.status is TaskStatus.RUNNING else []
        state = task_state(TaskStatus.APPROVAL if asked else summary.status, summary.reason)
        shown = self._head(task, state)
        shown.status.timestamp.FromDatetime(summary.updated_at)
        if whole or history != 0:
            steps = list(task.steps())
            own = steps[own_begin(steps) :]
            said = events.messages_of(own)
            shown.history.extend(said if history is None else said[max(0, len(said) - history) :])
        if whole:
            shown.artifacts.extend(events.artifacts_of(own, self._files(shown.id)))
            if parts := asked or _asked(task, summary):
                shown.status.message.CopyFrom(events.message(f"{shown.id}-{summary.steps}", parts))
        return shown

    def _asked_below(self, task: Task) -> list[a2a.Part]:
        """Return the calls of sub-tasks that need an approval."""
        asked = unapproved_in_sub_tasks(task, shown_task_id(self.caller, task.task_id))
        calls = [events.call_value(one.call, one.task_id) for one in asked]
        return [events.data_part({**call, "action": "approve"}) for call in calls]


def _asked(task: Task, summary: TaskSummary) -> list[a2a.Part]:
    """Return what the status of a task says: why it has failed or is paused, and what it waits for."""
    explains = summary.status.ended or summary.status is TaskStatus.PAUSED
    parts = [a2a.Part(text=summary.reason)] if summary.reason and explains else []
    if summary.status.waiting:
        pending = task.pending_actions()
        waits = {"approve": pending.unapproved(), "answer": pending.unanswered(), "resolve": pending.unknown()}
        asked = [events.call_value(call) | {"action": action} for action, calls in waits.items() for call in calls]
        parts.extend(map(events.data_part, asked))
    return parts


async def _accept(request: MessageRequest, message: a2a.Message, found: Task | None) -> AcceptedTurn:
    """Bring the message to `found`, the task that it names, or to that of its context."""
    answers = tuple(answers_of(message))
    turn = Turn(answers=answers, param="parts") if answers else Turn(text_of(message), param="parts")
    if found is None and answers:
        raise invalid("an answer to a call names its task in taskId")
    context_id = context_of(shown_task_id(request.caller, found.task_id)) if found else message.context_id
    if message.context_id not in ("", context_id):
        raise invalid("contextId is not that of the task")
    named = [request.caller.tenant, request.caller.by, request.team, message.context_id and context_id]
    identity = canonical_json([*named, message.message_id])
    repetition = MessageId(request.caller, sha256(identity), identity)
    request = replace(request, turn=turn, repetition=repetition)
    if found is None:
        return await _accept_in_context(request, context_id or f"new-{repetition.digest[:32]}")
    await _check(request, found)
    if answers:
        return await accepting.accept_answers(request, shown_task_id(request.caller, found.task_id))
    try:
        return await _send(request, found)
    except AlreadyEnded:
        raise a2a.UnsupportedOperationError("the task has ended: send the message with the contextId alone") from None


async def _accept_in_context(request: MessageRequest, context_id: str) -> AcceptedTurn:
    """Bring the message to the newest task of the context. If another one takes the next task, it follows that."""
    chat = await chat_of_task(request.gateway, request.caller, request.team, first_task_of(context_id))
    while (accepted := await _accept_in_chat(request, chat)) is None:
        chat = await grown(chat)
    return accepted


async def _accept_in_chat(request: MessageRequest, chat: Chat) -> AcceptedTurn | None:
    """Return the turn, or None if another message begins the next task of the context at this moment."""
    if not chat.tasks:
        options = request.task_options | {"item_id": _first_item(request)}
        return await unless_taken(accepting.accept_new(replace(request, task_options=options), chat.first))
    task = await request.gateway.task(request.caller, chat.newest)
    await _check(request, task)
    try:
        return await _send(request, task)
    except AlreadyEnded:
        return await unless_taken(fork_ended(request, task, chat, _first_item(request)))


async def _send(request: MessageRequest, task: Task) -> AcceptedTurn:
    """Send the message to the task, or find it there. Raise AlreadyEnded if the task has ended without it."""
    steps = await request.gateway.calls.histories.run(lambda: list(task.steps()))
    items = (request.item_id(task, 0), _first_item(request))
    known = [step for step in steps if step.metadata.get("item_id") in items]
    if known:
        if known[-1].text != request.turn.prompt:
            raise Problem(422, "conflict", "the messageId was used for another message", "use another one")
        return AcceptedTurn(task, ResponseStart(known[-1].seq))
    busy = {"if_busy": request.if_busy} if request.if_busy else {}
    return await send_to_task(replace(request, message_options=request.message_options | busy), task)


async def _check(request: MessageRequest, task: Task) -> None:
    if request.check is not None:
        await request.gateway.calls.histories.run(request.check, task)


def _first_item(request: TurnRequest) -> str:
    return f"{_FIRST}{request.repetition.digest[:32]}"
