"""chat: the route of OpenAI's chat completions. Each request is a task."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from roboco.client.task import Task
from roboco.errors import RobocoError
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.openai import accepting
from roboco.gateway.openai.bodies import ChatBody
from roboco.gateway.openai.chat_stream import ChatStream
from roboco.gateway.openai.following import answer_pieces, answer_while_connected, drained
from roboco.gateway.openai.forms import Asked, asked_of, naming_ignored
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.openai.outputs import chat_usage
from roboco.gateway.openai.problems import error_object, wrong_parameter
from roboco.gateway.openai.repetition import repetition_of
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.sse import event_stream, frame
from roboco.gateway.openai.turn import chat_entries, turn_of
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.rest.responses import STREAMED
from roboco.gateway.streams.live_response import OnDisconnect

router = APIRouter(prefix="/openai/v1", tags=["openai"], route_class=StrictJsonRoute)
_DONE: Final = b"data: [DONE]\n\n"
OnDisconnectHeader = Annotated[Literal["continue", "stop"] | None, Header(alias="X-Roboco-On-Disconnect")]


@router.post("/chat/completions", summary="Create a chat completion", responses=STREAMED)
async def create_chat_completion(
    request: Request,
    body: ChatBody,
    caller: Caller,
    gateway: TheGateway,
    x_roboco_on_disconnect: OnDisconnectHeader = None,
) -> Response:
    """Give a conversation to a team, and return its answer, whole or as chunks."""
    caller.require(Scope.READ)
    asked = asked_of(body, gateway.settings.openai_pass)
    async with AsyncExitStack() as held:  # before the task is accepted: nothing of a refused request is left
        await held.enter_async_context(gateway.limits.open_stream(caller))
        accepted = await _accept(request, body, asked, caller, gateway)
        task_id = shown_task_id(caller, accepted.task.task_id)
        stream = ChatStream(ResponseHead(task_id, body.model), accepted.start)
        deltas = answer_pieces(accepted.task, stream, accepted.cursor)
        stops = x_roboco_on_disconnect == "stop"
        on_disconnect = _stopper(gateway, caller, accepted.task) if stops else None
        about = {
            "id": f"chatcmpl-{task_id}_{accepted.start.position}",
            "created": int(datetime.now(UTC).timestamp()),
            "model": body.model,
        }
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            chunks = _chunks(about, deltas, stream, usage)
            return naming_ignored(asked, event_stream(gateway, chunks, held, on_disconnect))
        await answer_while_connected(request, gateway.closing, drained(deltas), on_disconnect)
        if stream.problem is not None:
            raise stream.problem
        return naming_ignored(asked, JSONResponse(_completion(about, stream)))


async def _accept(
    request: Request, body: ChatBody, asked: Asked, caller: Principal, gateway: Gateway
) -> accepting.AcceptedTurn:
    turn = turn_of(chat_entries(body.messages), "messages", continues=False)
    accepted = accepting.TurnRequest(
        gateway=gateway,
        caller=caller,
        repetition=await repetition_of(request, caller),
        team=body.model,
        turn=turn,
        immediate=bool(body.stream),
        task_options=body.roboco.of_task(),
        message_options=body.roboco.of_message() | asked.with_form(turn.instructions, bool(turn.answers)),
    )
    if not turn.answers:
        return await accepting.accept_new(accepted)
    if not turn.answered_task:
        raise wrong_parameter("messages", "the results belong to no call of this gateway")
    return await accepting.accept_answers(accepted, turn.answered_task)


async def _chunks(
    about: dict[str, Any], batches: AsyncGenerator[list[dict[str, Any]], None], stream: ChatStream, usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a streamed completion. An error is the last frame, which both of OpenAI's packages raise."""
    empty = {"usage": None} if usage else {}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return frame({**about, "object": "chat.completion.chunk", "choices": [choice], **empty})

    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(batches):
        async for deltas in batches:
            for delta in deltas:
                yield chunk(delta)
    if stream.problem is not None:
        yield frame(error_object(stream.problem))
        return
    yield chunk({}, stream.finish_reason)
    if usage:
        spent = chat_usage(stream.usage)
        yield frame({**about, "object": "chat.completion.chunk", "choices": [], "usage": spent})
    yield _DONE


def _completion(about: dict[str, Any], stream: ChatStream) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": stream.content or None, "refusal": None}
    if stream.tool_calls:
        message["tool_calls"] = stream.tool_calls
    elif message["content"] is None:
        message["content"] = ""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": stream.finish_reason}
    return {**about, "object": "chat.completion", "choices": [choice], "usage": chat_usage(stream.usage)}


def _stopper(gateway: Gateway, caller: Principal, task: Task) -> OnDisconnect:
    """Return the function that stops the task whose client has gone."""

    async def stop() -> None:
        reason, item_id = "the client of the chat completion has disconnected", f"oa-gone-{uuid.uuid4().hex}"
        with suppress(RobocoError, Problem):  # no client is left that could read the error; the limits end the task
            await gateway.calls.controls.run(task.stop, reason, item_id, by=caller.by)

    return stop
