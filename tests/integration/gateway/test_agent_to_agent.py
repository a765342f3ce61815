"""The client of a2a-sdk, unmodified, by both bindings, before two gateways and workers that are killed."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    InvalidParamsError,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskPushNotificationConfig,
    TaskState,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from roboco.notifications.webhook import signature_headers
from tests.support.gateway_openai import LONG_ANSWER, answer, write_teams
from tests.support.gateway_process import GatewayProcess
from tests.support.servers.hook_server import HookServer
from tests.support.stack import Stack, until
from tests.unit.gateway.answers.test_streams import RemoteTask

pytestmark = pytest.mark.workers
BINDINGS = ["JSONRPC", "HTTP+JSON"]
HELLO = "helper answers message 1: Hello"
SECRET = "whsec_" + base64.b64encode(b"secret of the receiver").decode()


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    """Yield a receiver of webhooks."""
    with HookServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory, hooks: HookServer) -> Iterator[list[GatewayProcess]]:
    """Yield two gateways before workers of this module, which it kills."""
    folder: Path = tmp_path_factory.mktemp("stack")
    allowlist = {"webhooks": (hooks.url,), "webhook_env": ("HOOK_SECRET",)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOK_SECRET", SECRET)
        with Stack(folder, teams_dir=write_teams(folder / "teams"), allowlist=allowlist) as stack:
            stack.model.script(answer)
            with GatewayProcess(stack) as one, GatewayProcess(stack) as other:
                yield [one, other]


@asynccontextmanager
async def connected(gateway: GatewayProcess, team: str, binding: str, streaming: bool = True) -> AsyncIterator[Client]:
    """Yield a client of a team."""
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(streaming, httpx_client=http, supported_protocol_bindings=[binding])
        yield await create_client(f"http://127.0.0.1:{gateway.port}/a2a/{team}", config)


def said(*parts: Part, **ids: str) -> SendMessageRequest:
    """Return a message of the user."""
    message = Message(role=Role.ROLE_USER, parts=parts, message_id=uuid.uuid4().hex)
    return SendMessageRequest(message=ParseDict(ids, message))


def text(words: str) -> Part:
    """Return a text."""
    return Part(text=words)


def data(**values: Any) -> Part:
    """Return an answer to a call."""
    return ParseDict({"data": values}, Part())


async def task_of(stream: AsyncIterator[StreamResponse]) -> RemoteTask:
    """Return what a client has of a task once its stream has ended."""
    return RemoteTask([event async for event in stream])


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a client."""
    asyncio.run(asyncio.wait_for(work, 120))


@pytest.mark.parametrize("binding", BINDINGS)
def test_agents_stream_their_text_and_the_context_goes_on(gateways: list[GatewayProcess], binding: str) -> None:
    async def drive() -> None:
        async with connected(gateways[0], "line", binding) as client:
            first = await task_of(client.send_message(said(text("a long one"))))
        assert first.state == TaskState.TASK_STATE_COMPLETED
        assert [name for name, _ in first.texts] == ["first", "second"]
        assert first.texts[0][1] == "".join(LONG_ANSWER)
        async with connected(gateways[1], "line", binding) as client:  # any gateway has all of it
            second = await task_of(client.send_message(said(text("two"), contextId=first.context_id)))
            assert second.texts[0][1].endswith(": two")
            assert second.id != first.id
            read = await client.get_task(GetTaskRequest(id=second.id))
            assert RemoteTask([StreamResponse(task=read)]).texts == second.texts
            listed = await client.list_tasks(ListTasksRequest(context_id=first.context_id, page_size=1))
            rest = await client.list_tasks(
                ListTasksRequest(context_id=first.context_id, page_token=listed.next_page_token)
            )
            assert [one.id for page in (listed, rest) for one in page.tasks] == [second.id, first.id]
            every = await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_COMPLETED))
            assert {first.id, second.id} <= {one.id for one in every.tasks}

    run(drive())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_message_that_arrives_twice_counts_once(gateways: list[GatewayProcess], binding: str) -> None:
    async def drive() -> None:
        async with connected(gateways[0], "desk", binding) as client:
            request = said(text("Hello"))
            [one, two] = [await task_of(client.send_message(request)) for _ in range(2)]
            assert one.texts == two.texts == [("helper", HELLO)]
            assert one.id == two.id
            again = said(text("Hello"), contextId=one.context_id)
            [three, four] = [await task_of(client.send_message(again)) for _ in range(2)]
            assert three.id == four.id != one.id
            assert three.texts == four.texts == [("helper", "helper answers message 2: Hello")]
            named = uuid.uuid4().hex
            first, equal = (said(text("Hello"), contextId=named) for _ in range(2))
            [five, six, seven] = [await task_of(client.send_message(sent)) for sent in (first, first, equal)]
            assert five.id == six.id != seven.id
            assert five.texts == six.texts == [("helper", HELLO)]
            assert seven.texts == three.texts
            both = [said(text(words), contextId=uuid.uuid4().hex) for words in ("one", "two")]
            both[1].message.context_id = both[0].message.context_id
            await asyncio.gather(*(task_of(client.send_message(sent)) for sent in both))
            context = ListTasksRequest(context_id=both[0].message.context_id, history_length=9)
            listed = [message for one in (await client.list_tasks(context)).tasks for message in one.history]
            assert sorted(message.parts[0].text for message in listed) == ["one", "two"]

    run(drive())


@pytest.mark.parametrize(("team", "approved"), [("guarded", True), ("guarded", False), ("chief", True)])
def test_an_approval_and_a_client_tool_require_input(gateways: list[GatewayProcess], team: str, approved: bool) -> None:
    async def drive() -> None:
        async with connected(gateways[0], team, "JSONRPC") as client:
            asked = await task_of(client.send_message(said(text("add"))))
            assert asked.state == TaskState.TASK_STATE_INPUT_REQUIRED
            [call] = [MessageToDict(part.data) for part in asked.asks]
            assert call["action"] == "approve"
            assert asked.calls[-1] == call["callId"]
            reply = said(data(callId=call["callId"], approved=approved), taskId=asked.id)
            done = await task_of(client.send_message(reply))
            assert done.state == TaskState.TASK_STATE_COMPLETED
            assert ("The result is 3." in done.texts[-1][1]) is approved
        async with connected(gateways[1], "desk", "HTTP+JSON") as client:
            request = said(text("the weather in both?"))
            tool = {"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}
            ParseDict({"clientTools": [tool]}, request.message.metadata)
            asked = await task_of(client.send_message(request))
            calls = [MessageToDict(part.data) for part in asked.asks]
            assert [call["action"] for call in calls] == ["answer", "answer"]
            results = [data(callId=call["callId"], result=f"sun in {call['args']['city']}") for call in calls]
            done = await task_of(client.send_message(said(*results, taskId=asked.id)))
            assert done.texts[-1][1] == "The results are ['sun in Bonn', 'sun in Rome']."

    run(drive())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_task_is_canceled_once_and_failures_are_shown(gateways: list[GatewayProcess], binding: str) -> None:
    async def drive() -> None:
        async with connected(gateways[0], "desk", binding, streaming=False) as client:
            request = said(text("endless"))
            request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
            [begun] = [event.task async for event in client.send_message(request)]
            canceled = await client.cancel_task(CancelTaskRequest(id=begun.id))
            assert canceled.status.state == TaskState.TASK_STATE_CANCELED
            assert (await client.cancel_task(CancelTaskRequest(id=begun.id))).id == begun.id
            [failed] = [event.task async for event in client.send_message(said(text("fail")))]
            assert failed.status.state == TaskState.TASK_STATE_FAILED
            assert "the model refuses" in failed.status.message.parts[0].text
            with pytest.raises(TaskNotCancelableError):
                await client.cancel_task(CancelTaskRequest(id=failed.id))
        async with connected(gateways[1], "desk", binding) as client:
            with pytest.raises(UnsupportedOperationError):
                await task_of(client.subscribe(SubscribeToTaskRequest(id=failed.id)))
            with pytest.raises(UnsupportedOperationError):
                await task_of(client.send_message(said(text("again"), taskId=failed.id)))
            for unknown in ("a2a_none", "task_1", "other:a2a_none"):
                with pytest.raises(TaskNotFoundError):
                    await client.get_task(GetTaskRequest(id=unknown))
        async with connected(gateways[0], "line", binding) as client:
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id=failed.id))

    run(drive())


@pytest.mark.parametrize("binding", BINDINGS)
def test_webhooks_are_named_with_a_message_and_later_and_hear_of_a_wait_and_of_the_end(
    gateways: list[GatewayProcess], hooks: HookServer, binding: str
) -> None:
    def states(path: str, *wanted: str) -> None:
        def posted() -> list[str]:
            found = [request for request in hooks.posted if request.path == f"/{path}"]
            for request in found:
                assert request.headers["content-type"] == "application/a2a+json"
                if path.startswith("signed"):
                    name, second = request.headers["webhook-id"], request.headers["webhook-timestamp"]
                    signed = signature_headers(name, int(second), request.body, SECRET)
                    assert signed.items() <= request.headers.items()
                else:
                    named = request.headers["authorization"], request.headers["x-a2a-notification-token"]
                    assert named == ("Bearer of-the-client", "of-the-task")
            updates = [ParseDict(json.loads(one.body), StreamResponse()).status_update for one in found]
            return list(dict.fromkeys(f"{one.task_id} {TaskState.Name(one.status.state)}" for one in updates))

        until(lambda: posted() == list(wanted), 30, f"the states of {path} are {wanted}")

    async def drive() -> None:
        run_id = uuid.uuid4().hex
        with_message = TaskPushNotificationConfig(url=f"{hooks.url}{run_id}", token="of-the-task")
        with_message.authentication.CopyFrom(AuthenticationInfo(scheme="Bearer", credentials="of-the-client"))
        signed = TaskPushNotificationConfig(id="signed", url=f"{hooks.url}signed{run_id}")
        signed.authentication.CopyFrom(AuthenticationInfo(scheme="secret_env", credentials="HOOK_SECRET"))
        async with connected(gateways[0], "guarded", binding) as client:
            request = said(text("add"))
            request.configuration.task_push_notification_config.CopyFrom(with_message)
            asked = await task_of(client.send_message(request))
            waits, done = f"{asked.id} TASK_STATE_INPUT_REQUIRED", f"{asked.id} TASK_STATE_COMPLETED"
            await asyncio.to_thread(states, run_id, waits)
        async with connected(gateways[1], "guarded", binding) as client:
            signed.task_id = asked.id
            assert (await client.create_task_push_notification_config(signed)).url == signed.url
            await asyncio.to_thread(states, f"signed{run_id}", waits)
            gone = GetTaskPushNotificationConfigRequest(task_id=asked.id, id=asked.id)
            assert (await client.get_task_push_notification_config(gone)).authentication.scheme == "Bearer"
            await client.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=asked.id, id=asked.id)
            )
            listed = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=asked.id)
            )
            assert [one.id for one in listed.configs] == ["signed"]
            with pytest.raises(TaskNotFoundError):
                await client.get_task_push_notification_config(gone)
            [call] = [MessageToDict(part.data) for part in asked.asks]
            reply = said(data(callId=call["callId"], approved=True), taskId=asked.id)
            await task_of(client.send_message(reply))
            await asyncio.to_thread(states, f"signed{run_id}", waits, done)
            await asyncio.to_thread(states, run_id, waits)
            with pytest.raises(UnsupportedOperationError):
                await client.create_task_push_notification_config(signed)
            following = said(text("add"), contextId=asked.context_id)
            following.configuration.task_push_notification_config.CopyFrom(with_message)
            second = await task_of(client.send_message(following))
            await asyncio.to_thread(states, run_id, waits, f"{second.id} TASK_STATE_INPUT_REQUIRED")

    run(drive())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_message_while_the_task_works_is_read_after_the_step(gateways: list[GatewayProcess], binding: str) -> None:
    async def drive() -> None:
        seen: list[StreamResponse] = []
        async with connected(gateways[0], "desk", binding) as client, connected(gateways[1], "desk", binding) as other:
            async for event in client.send_message(said(text("a slow and long answer"))):
                seen.append(event)
                if len(seen) == 8:
                    steer = said(text("two"), taskId=seen[0].task.id)
                    both = [asyncio.create_task(task_of(one.send_message(steer))) for one in (client, other)]
            texts = [("helper", "".join(LONG_ANSWER)), ("helper", "helper answers message 2: two")]
            assert RemoteTask(seen).texts == texts
            read = await client.get_task(GetTaskRequest(id=seen[0].task.id))
            assert [message.parts[0].text for message in read.history] == ["a slow and long answer", "two"]
            for later in await asyncio.gather(*both):
                assert (later.id, later.state, later.texts) == (read.id, read.status.state, texts[1:])

    run(drive())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_message_interrupts_a_task_at_work(gateways: list[GatewayProcess], binding: str) -> None:
    async def drive() -> None:
        seen: list[StreamResponse] = []
        async with connected(gateways[0], "desk", binding) as client, connected(gateways[1], "desk", binding) as other:
            async for event in client.send_message(said(text("endless"))):
                seen.append(event)
                if len(seen) == 5:
                    stop = said(text("two"), taskId=seen[0].task.id)
                    ParseDict({"ifBusy": "interrupt"}, stop.message.metadata)
                    later = asyncio.create_task(task_of(other.send_message(stop)))
            answered = await later
            assert answered.texts[-1][1].endswith(": two")
            assert RemoteTask(seen).texts[-1] == answered.texts[-1]
            assert answered.state == TaskState.TASK_STATE_COMPLETED
            wrong = said(text("three"), taskId=answered.id)
            ParseDict({"ifBusy": "never"}, wrong.message.metadata)
            with pytest.raises(InvalidParamsError, match="never"):
                await task_of(client.send_message(wrong))

    run(drive())


@pytest.mark.slow
def test_a_killed_worker_and_a_cut_leave_no_text_twice(gateways: list[GatewayProcess]) -> None:
    async def drive() -> None:
        seen: list[StreamResponse] = []
        async with connected(gateways[0], "desk", "JSONRPC") as client:
            async for event in client.send_message(said(text("a slow and long answer"))):
                seen.append(event)
                if len(seen) == 8:
                    await asyncio.to_thread(gateways[0].stack.restart, "agents")
                if len(seen) == 9:
                    later = asyncio.create_task(follow(seen[0].task.id))
        whole = RemoteTask(seen)
        assert [name for name, _ in whole.texts] == ["helper"]
        assert whole.texts == (await later).texts == [("helper", "".join(LONG_ANSWER))]

    async def follow(task_id: str) -> RemoteTask:
        async with connected(gateways[1], "desk", "HTTP+JSON") as client:
            return await task_of(client.subscribe(SubscribeToTaskRequest(id=task_id)))

    run(drive())
