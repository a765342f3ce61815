"""agent: the operations of A2A on a team. All that they need is in the histories: any gateway process serves them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from a2a import types as a2a
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict

from roboco.client.task import Task
from roboco.domain.notification import NotifyTarget
from roboco.domain.push_notification import task_state
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.errors import CorruptHistory, UsageError
from roboco.gateway.a2a import push
from roboco.gateway.a2a import task_events as events
from roboco.gateway.a2a.contexts import MessageRequest, accept, context_of, first_task_of, own_begin
from roboco.gateway.answers.answer_stream import AnswerStream
from roboco.gateway.answers.chats import chat_of_task
from roboco.gateway.answers.following import answer_parts, unapproved_in_sub_tasks
from roboco.gateway.answers.ids import task_id_of_branch
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai.accepting import AcceptedTurn
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
            repetition=Repetition(self.caller, "", None, 0, 0.0),
            team=self.team,
            turn=Turn(),
            immediate=True,
            task_options={"context": options.get("context"), "notify": []},
            message_options={"client_tools": functions} if functions else {},
            if_busy=options.get("ifBusy"),
            check=(lambda task: push.check(task, self._receiver(task, config))) if configured else None,
        )
        accepted = await accept(request, message, found)
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
