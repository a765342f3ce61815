"""routes: the routes of AG-UI, for HttpAgent of its packages and for CopilotKit's runtime.

POST /agui/TEAM                      a run: a message, results of tools, or decisions ─► task ─► events of the answer
POST /agui/TEAM/threads/THREAD/stop  the work ends, its text so far stays, and the thread waits for its user

A run that repeats the last message of its thread, for instance after a cut, follows its answer again from the begin. A
stream that is not whole has no end: a client would take a clean end for a success. A client that goes stops nothing.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any, Final

from ag_ui.core import Message, ResumeEntry, RunAgentInput, ToolMessage
from ag_ui.encoder import EventEncoder
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from roboco.gateway.access import Caller
from roboco.gateway.agui.run_stream import Event, RunStream
from roboco.gateway.answers.answer_stream import AnswerStream
from roboco.gateway.answers.chats import (
    Chat,
    accept,
    accept_answers,
    chat_of,
    chat_request,
    still_waited_for,
    stop_chat,
)
from roboco.gateway.answers.following import answer_parts
from roboco.gateway.bodies.mistakes import WellFormedBody
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.openai.accepting import AcceptedTurn, TurnRequest
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.sse import event_stream
from roboco.gateway.openai.turn import Answer, Decided, Resolved, Returned
from roboco.gateway.principal import Scope
from roboco.gateway.rest.parameters import TeamName
from roboco.gateway.rest.responses import STREAMED, problems

router = APIRouter(prefix="/agui", tags=["ag-ui"], route_class=StrictJsonRoute, responses=problems(404, 409))
_ENCODER: Final = EventEncoder()
MAX_UNCOUNTED: Final = 256 * 1024
"""Bytes of a run that are kept for snapshots, beyond which they count as a large body."""
ThreadId = Annotated[str, Path(min_length=1, max_length=255)]


class RunRequest(WellFormedBody, RunAgentInput):
    """A run of AG-UI."""


@router.post("/{team}", summary="Run a team in a thread", response_class=Response, responses=STREAMED)
async def run_team(request: Request, team: TeamName, body: RunRequest, caller: Caller, gateway: TheGateway) -> Response:
    """Bring the last message, results or decisions of a thread to a team, and return the events of its answer."""
    caller.require(Scope.READ)
    if not 0 < len(body.thread_id) <= 255 or not 0 < len(body.run_id) <= 255:
        raise wrong_parameter("threadId", "threadId and runId must have 1 to 255 characters")
    async with AsyncExitStack() as held:  # before the message is accepted: nothing of a refused request is left
        await held.enter_async_context(gateway.limits.open_stream(caller))
        if (size := len(await request.body())) > MAX_UNCOUNTED:
            held.enter_context(gateway.bodies.hold(caller.owner, size))
        chat = await chat_of(gateway, caller, team, body.thread_id)
        tools = [tool.model_dump(include={"name", "description", "parameters"}) for tool in body.tools or ()]
        view = {one.description: one.value for one in body.context or ()}
        turn = chat_request(gateway, caller, team, tools, {"client_context": view} if view else {})
        accepted, run = await _accept(turn, chat, body)
        head = ResponseHead(shown_task_id(caller, accepted.task.task_id), team)
        values = await gateway.calls.histories.run(accepted.task.shared_state) if chat.tasks else None
        answer = AnswerStream(head, accepted.start)
        files = f"{request.scope.get('root_path', '')}/v1/tasks/{head.task_id}/files"
        stream = RunStream(answer, run, values, files)
        trimmed = len(run.messages) < len(body.messages)
        return event_stream(gateway, _frames(gateway, accepted, answer, stream, trimmed), held)


@router.post("/{team}/threads/{thread:path}/stop", summary="Stop the run of a thread")
async def stop(team: TeamName, thread: ThreadId, caller: Caller, gateway: TheGateway) -> JSONResponse:
    """End the work: the connection to the model closes, the text so far stays, and the thread waits for its user."""
    return JSONResponse(await stop_chat(await chat_of(gateway, caller, team, thread)))


async def _accept(request: TurnRequest, chat: Chat, body: RunAgentInput) -> tuple[AcceptedTurn, RunAgentInput]:
    """Bring the run to the task of the thread. Return its turn, and the run with the messages before its answer."""
    results: list[Returned] = []
    for message in reversed(body.messages):
        if not isinstance(message, ToolMessage):
            break
        results.insert(0, Returned(message.tool_call_id, _text(message.content)))
    if body.resume or (results and chat.tasks):
        decided = [_answer(one) for one in body.resume or ()]
        if decided and results and chat.tasks:  # a step may have both: earlier results are known
            results = await still_waited_for(chat, chat.newest, results)
        return await accept_answers(request, chat, chat.newest, (*decided, *results)), body
    own = list(body.messages)
    while own and own[-1].role != "user":
        own.pop()
    if not own:
        raise wrong_parameter("messages", "must have a message of the user")
    accepted, _ = await accept(request, chat, list(_plain(own)), again=False)
    return accepted, body.model_copy(update={"messages": own})


def _answer(entry: ResumeEntry) -> Answer:
    """Return what a person says of a call with an unknown outcome, or the decision on another call."""
    payload = entry.payload if isinstance(entry.payload, dict) else {}
    reason, args = str(payload.get("reason") or ""), payload.get("editedArgs")
    if args is not None and not isinstance(args, dict):
        raise wrong_parameter("resume", "editedArgs must be an object")
    match entry.status, payload:
        case "resolved", {"happened": bool(happened)}:
            return Resolved(entry.interrupt_id, happened, payload.get("result"))
        case "resolved", {"approved": bool(approved)}:
            return Decided(entry.interrupt_id, approved, reason, args)
        case "cancelled", _:
            return Decided(entry.interrupt_id, False, reason)
        case _:
            raise wrong_parameter("resume", "payload must have approved, or happened, as its responseSchema says")


def _plain(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Yield the messages with text, as `chats.py` reads them."""
    for message in messages:
        if message.role in ("user", "assistant"):
            parts = [{"type": "text", "text": _text(message.content)}]
            yield {"id": message.id, "role": message.role, "parts": parts}


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if any(part.type != "text" for part in content):
        raise wrong_parameter("messages", "only text is supported", "upload files to a task with the REST API")
    return "\n\n".join(part.text for part in content)


async def _frames(
    gateway: Gateway, accepted: AcceptedTurn, answer: AnswerStream, stream: RunStream, trimmed: bool
) -> AsyncGenerator[bytes, None]:
    for event in stream.opening(trimmed):
        yield _frame(event)
    async with aclosing(answer_parts(gateway, accepted.task, answer, accepted.cursor)) as parts:
        async for part in parts:
            for event in stream.events(part):
                yield _frame(event)
    for event in stream.closing():
        yield _frame(event)


def _frame(event: Event) -> bytes:
    return _ENCODER.encode(event).encode()
