"""The client of the package a2a-sdk, by the binding that A2A_BINDING names."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict
from rows import (
    FUNCTION,
    HELLO,
    LONG_TEXT,
    PLACE,
    WEATHER,
    answer_to,
    drive,
    endless,
    expect,
    hundred,
    kill_worker,
    weather,
)

URL = os.environ["OPENAI_BASE_URL"].replace("/openai/v1", "/a2a")
BINDING = os.environ["A2A_BINDING"]


@asynccontextmanager
async def connected(team: str) -> AsyncIterator[Client]:
    """Yield a client of a team."""
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[BINDING])
        yield await create_client(f"{URL}/{team}", config)


def said(part: Any, tools: bool = False, **ids: str) -> SendMessageRequest:
    """Return a message of the user: a text, or data."""
    content = {"text": part} if isinstance(part, str) else {"data": part}
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [content], **ids}
    return ParseDict(
        {"message": message | ({"metadata": {"clientTools": [FUNCTION]}} if tools else {})}, SendMessageRequest()
    )


class Read:
    """A task as the client has read it."""

    def __init__(self) -> None:
        self.artifacts: dict[str, tuple[str, list[str]]] = {}
        self.id = self.context = ""
        self.state, self.calls, self.pieces = 0, [], 0
        self.why, self.outputs, self.replaced = "", [], 0

    def add(self, event: StreamResponse) -> None:
        """Apply an event."""
        if event.HasField("task"):
            self.id, self.context = event.task.id, event.task.context_id
        elif event.HasField("status_update"):
            self.state = event.status_update.status.state
            parts = event.status_update.status.message.parts
            self.calls = [MessageToDict(part.data) for part in parts]
            self.why = "".join(part.text for part in parts)
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            name, texts = self.artifacts.get(update.artifact.artifact_id, (update.artifact.name, []))
            self.pieces += 1
            self.outputs += [MessageToDict(part)["data"] for part in update.artifact.parts if part.HasField("data")]
            self.replaced += bool(texts) and not update.append
            kept = texts if update.append else []
            self.artifacts[update.artifact.artifact_id] = name, [*kept, *(part.text for part in update.artifact.parts)]

    async def all(self, events: AsyncIterator[StreamResponse]) -> "Read":
        """Apply all events."""
        async for event in events:
            self.add(event)
        return self

    @property
    def texts(self) -> list[str]:
        """The texts of the agents."""
        return ["".join(texts) for _, texts in self.artifacts.values()]


async def _plain() -> None:
    async with connected("desk") as client:
        expect((await Read().all(client.send_message(said("Hello")))).texts, [HELLO])


async def _stream() -> None:
    async with connected("line") as client:
        read = await Read().all(client.send_message(said("a long one")))
        expect([[name for name, _ in read.artifacts.values()], read.texts[0]], [["first", "second"], LONG_TEXT])
        assert read.pieces > 6


async def _resume() -> None:
    read = Read()
    async with connected("desk") as client:
        async for event in client.send_message(said("a long slow one")):
            read.add(event)
            if read.pieces == 5:
                break
    async with connected("desk") as client:
        whole = await read.all(client.subscribe(SubscribeToTaskRequest(id=read.id)))
        expect([whole.texts, whole.state], [[LONG_TEXT], TaskState.TASK_STATE_COMPLETED])


async def _tools() -> None:
    async with connected("desk") as client:
        asked = await Read().all(client.send_message(said("the weather?", tools=True)))
        [call] = asked.calls
        result = {"callId": call["callId"], "result": weather(**call["args"])}
        done = await Read().all(client.send_message(said(result, taskId=asked.id)))
        expect(done.texts, [WEATHER])


async def _history() -> None:
    async with connected("desk") as client:
        one = await Read().all(client.send_message(said("one")))
        two = await Read().all(client.send_message(said("two", contextId=one.context)))
        expect(two.texts, ["helper answers message 2: two"])


async def _approval() -> None:
    for team, approved in (("guarded", True), ("guarded", False), ("chief", True)):
        async with connected(team) as client:
            asked = await Read().all(client.send_message(said("add")))
            hook = await _named_webhook(client, asked.id) if team == "guarded" else ""  # a sub-task waits, not its task
            decision = {"callId": asked.calls[0]["callId"], "approved": approved}
            done = await Read().all(client.send_message(said(decision, taskId=asked.id)))
            expect("The result is 3." in "".join(done.texts), approved)
            if hook:
                await _hears(hook, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"])


async def _named_webhook(client: Client, task_id: str) -> str:
    """Give the task two webhooks, and remove one. Return the address of the other."""
    hook = f"{os.environ['HOOK']}{uuid.uuid4().hex}"
    for config_id in ("kept", "removed"):
        config = TaskPushNotificationConfig(id=config_id, task_id=task_id, url=hook)
        config.authentication.CopyFrom(AuthenticationInfo(scheme="Bearer", credentials=config_id))
        await client.create_task_push_notification_config(config)
    await _hears(hook, ["TASK_STATE_INPUT_REQUIRED"])
    removed = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="removed")
    await client.delete_task_push_notification_config(removed)
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task_id))
    kept = await client.get_task_push_notification_config(
        GetTaskPushNotificationConfigRequest(task_id=task_id, id="kept")
    )
    expect(list(listed.configs), [kept])
    return hook


async def _hears(hook: str, states: list[str]) -> None:
    """Wait until the webhook has heard of these states with the credentials `kept`."""
    async with httpx.AsyncClient() as http:
        for _ in range(600):
            posted = (await http.get(hook)).json()
            heard = [body["statusUpdate"]["status"]["state"] for bearer, body in posted if bearer == "Bearer kept"]
            if list(dict.fromkeys(heard)) == states:
                return
            await asyncio.sleep(0.1)
    expect(heard, states)


async def _interrupt(client: Client) -> None:
    read, later = Read(), None
    async for event in client.send_message(said("an endless one")):
        read.add(event)
        if read.pieces == 2 and later is None:
            other = said("two", taskId=read.id)
            ParseDict({"ifBusy": "interrupt"}, other.message.metadata)
            later = asyncio.create_task(Read().all(client.send_message(other)))
    answer = (await later).texts[-1] if later else ""
    expect(
        [read.texts[-1] == answer, answer.endswith(": two"), read.state], [True, True, TaskState.TASK_STATE_COMPLETED]
    )


async def _cancel() -> None:
    read = Read()
    async with connected("desk") as client:
        await _interrupt(client)
        async for event in client.send_message(said(endless(os.environ["A2A_NAME"]))):
            read.add(event)
            if read.pieces == 2:
                await client.cancel_task(CancelTaskRequest(id=read.id))
    expect(read.state, TaskState.TASK_STATE_CANCELED)


async def _structured() -> None:
    async with connected("typed") as client:
        expect((await Read().all(client.send_message(said("warm, as JSON")))).outputs, [PLACE])


async def _failure() -> None:
    async with connected("desk") as client:
        failed = await Read().all(client.send_message(said("fail")))
        expect([failed.state, "the model refuses" in failed.why], [TaskState.TASK_STATE_FAILED, True])
        again = await Read().all(client.send_message(said("again", contextId=failed.context)))
        expect(again.texts[-1].endswith(": again"), True)


async def _killed_worker() -> None:
    read = Read()
    async with connected("desk") as client:
        async for event in client.send_message(said("a long one")):
            read.add(event)
            if read.pieces == 1:
                await asyncio.to_thread(kill_worker)
    expect([read.texts, read.replaced > 0, read.state], [[LONG_TEXT], True, TaskState.TASK_STATE_COMPLETED])


async def _hundred() -> None:
    async def one(client: Client, prompt: str) -> None:
        message = said(prompt)
        try:
            read = await Read().all(client.send_message(message))
        except (
            A2AError
        ) as error:  # the calls of all clients wait in one line, which is full: sent again, it counts once
            if "503" not in str(error) and "repeat the request" not in str(error):
                raise
            await asyncio.sleep(5)
            read = await Read().all(client.send_message(message))
        expect(read.texts, [answer_to(prompt)])

    async with connected("desk") as client:
        await asyncio.gather(*(one(client, prompt) for prompt in hundred(os.environ["A2A_NAME"])))


ROWS = {
    "plain": _plain,
    "stream": _stream,
    "structured output": _structured,
    "failure": _failure,
    "killed worker": _killed_worker,
    "a hundred runs": _hundred,
    "resume": _resume,
    "tools": _tools,
    "history": _history,
    "approval": _approval,
    "cancel": _cancel,
}
drive({name: lambda row=row: asyncio.run(row()) for name, row in ROWS.items()})
