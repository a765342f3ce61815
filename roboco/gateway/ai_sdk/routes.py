"""routes: the routes of chats of the AI SDK, for its transport DefaultChatTransport and useChat.

POST /ai/TEAM              the last message, or answers to calls ─► task ─► chunks of the answer
GET  /ai/TEAM/CHAT/stream  the message that is being written, from its begin; 204 if none is
POST /ai/TEAM/CHAT/stop    the work ends, its text so far stays, and the chat waits for its user

A stream that is not whole has no end, so that the client sees an error and resumes. A client that goes stops nothing.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, JsonValue

from roboco.gateway.access import Caller
from roboco.gateway.ai_sdk.ui_stream import UIMessageStream
from roboco.gateway.answers.answer_stream import AnswerStream
from roboco.gateway.answers.chats import Chat, accept, chat_of, chat_request, stop_chat
from roboco.gateway.answers.following import answer_parts, begin_of_message
from roboco.gateway.bodies.mistakes import WellFormedBody
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.openai.accepting import AcceptedTurn
from roboco.gateway.openai.bodies import RobocoOptions
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.openai.sse import event_stream, frame
from roboco.gateway.principal import Scope
from roboco.gateway.rest.parameters import TeamName
from roboco.gateway.rest.responses import STREAMED, problems

router = APIRouter(prefix="/ai", tags=["ai-sdk"], route_class=StrictJsonRoute, responses=problems(404, 409))
_DONE: Final = b"data: [DONE]\n\n"
STREAM_HEADER: Final = "x-vercel-ai-ui-message-stream"
"""The header with the version of the protocol."""
ChatId = Annotated[str, Path(min_length=1, max_length=255)]


class UIMessageRequest(WellFormedBody):
    """A request of the AI SDK. Other fields of a page are ignored."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str, Field(min_length=1, max_length=255)]
    """The chat."""
    messages: Annotated[list[dict[str, JsonValue]], Field(min_length=1)]
    """All messages of the chat: the last one is the user's, or has results of tools or decisions."""
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    tools: Annotated[list[dict[str, JsonValue]] | None, Field(max_length=32)] = None
    """Tools that the page runs, each with `name`, `description` and `parameters`, a JSON Schema."""
    roboco: RobocoOptions = RobocoOptions()


@router.post("/{team}", summary="Send a message of a chat", response_class=Response, responses=STREAMED)
async def post_message(
    request: Request, team: TeamName, body: UIMessageRequest, caller: Caller, gateway: TheGateway
) -> Response:
    """Bring the last message of a chat to a team, and return the stream of its answer."""
    caller.require(Scope.READ)
    async with AsyncExitStack() as held:  # before the message is accepted: nothing of a refused request is left
        await held.enter_async_context(gateway.limits.open_stream(caller))
        chat = await chat_of(gateway, caller, team, body.id)
        options = body.roboco
        turn = chat_request(gateway, caller, team, body.tools or (), options.of_message(), **options.of_task())
        accepted, continued = await accept(turn, chat, body.messages, body.trigger == "regenerate-message")
        stream = _stream(request, chat, team, accepted, continued)
        return _response(gateway, _frames(gateway, accepted, stream), held)


@router.get(
    "/{team}/{chat:path}/stream",
    summary="Resume the message that is being written",
    response_class=Response,
    responses=STREAMED | {204: {"description": "No message is being written."}},
)
async def resume(request: Request, team: TeamName, chat: ChatId, caller: Caller, gateway: TheGateway) -> Response:
    """Return the stream of the message that is being written, from its begin, or 204 if none is."""
    caller.require(Scope.READ)
    found = await chat_of(gateway, caller, team, chat)
    if not found.tasks:
        return Response(status_code=204)
    async with AsyncExitStack() as held:
        await held.enter_async_context(gateway.limits.open_stream(caller))
        task = await gateway.followed_task(caller, found.newest)
        begin = await gateway.calls.histories.run(begin_of_message, task)
        if begin is None:
            return Response(status_code=204)
        accepted = AcceptedTurn(task, ResponseStart(begin))
        stream = _stream(request, found, team, accepted)
        return _response(gateway, _frames(gateway, accepted, stream, goes_on=True), held)


@router.post("/{team}/{chat:path}/stop", summary="Stop the message that is being written")
async def stop(team: TeamName, chat: ChatId, caller: Caller, gateway: TheGateway) -> JSONResponse:
    """End the work: the connection to the model closes, the text so far stays, and the chat waits for its user."""
    return JSONResponse(await stop_chat(await chat_of(gateway, caller, team, chat)))


def _stream(request: Request, chat: Chat, team: str, accepted: AcceptedTurn, continued: str = "") -> UIMessageStream:
    head = ResponseHead(shown_task_id(chat.caller, accepted.task.task_id), team)
    files = f"{request.scope.get('root_path', '')}/v1/tasks/{head.task_id}/files"
    return UIMessageStream(AnswerStream(head, accepted.start), files, continued)


def _response(gateway: Gateway, frames: AsyncGenerator[bytes, None], held: AsyncExitStack) -> Response:
    response = event_stream(gateway, frames, held)
    response.headers[STREAM_HEADER] = "v1"
    return response


async def _frames(
    gateway: Gateway, accepted: AcceptedTurn, stream: UIMessageStream, goes_on: bool = False
) -> AsyncGenerator[bytes, None]:
    async with aclosing(answer_parts(gateway, accepted.task, stream.answer, accepted.cursor, goes_on)) as parts:
        async for part in parts:
            for chunk in stream.chunks(part):
                yield frame(chunk)
    for chunk in stream.closing():
        yield frame(chunk)
    yield _DONE
