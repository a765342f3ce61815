"""responses: the routes of OpenAI's Responses API.

POST /responses ─► turn of the request ─► accepted by a task ─► its stream ─► events, or the whole response
GET  /responses/ID ─► history of the task; with stream=true its stream, from the begin or after a number
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from roboco.client.task import Task
from roboco.domain.canonical_json import sha256
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.openai import accepting
from roboco.gateway.openai.bodies import Order, ResponseBody
from roboco.gateway.openai.events import ResponseEvent
from roboco.gateway.openai.following import answer_pieces, answer_while_connected, drained, response_frames
from roboco.gateway.openai.forms import Asked, asked_of, naming_ignored
from roboco.gateway.openai.ids import ResponseId, shown_task_id, task_of_conversation
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.reading import input_items, page_of, read_response
from roboco.gateway.openai.repetition import repetition_of
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart, ResponseStream
from roboco.gateway.openai.sse import event_stream
from roboco.gateway.openai.turn import after_reference, earlier_turn, input_entries, turn_of
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.rest.responses import STREAMED

router = APIRouter(prefix="/openai/v1", tags=["openai"], route_class=StrictJsonRoute)
CANCEL_SECONDS = 5.0
"""Seconds for which a cancellation waits until the work has ended."""


@router.post("/responses", summary="Create a response", responses=STREAMED)
async def create_response(request: Request, body: ResponseBody, caller: Caller, gateway: TheGateway) -> Response:
    """Bring a message, or results of functions, to a team, and return its response or a stream of events."""
    caller.require(Scope.READ)
    asked = asked_of(body, gateway.settings.openai_pass)
    async with AsyncExitStack() as held:  # before the turn is accepted: nothing of a refused request is left
        if body.stream or not body.background:
            await held.enter_async_context(gateway.limits.open_stream(caller))
        accepted = await _accept(request, body, asked, caller, gateway)
        stream = ResponseStream(await _head(gateway, caller, accepted.task, body), accepted.start)
        batches = answer_pieces(accepted.task, stream, accepted.cursor)
        if body.stream:
            return naming_ignored(asked, event_stream(gateway, response_frames(batches), held))
        if body.background:
            found = await _response_so_far(request, gateway, accepted, stream, batches)
        else:
            await answer_while_connected(request, gateway.closing, drained(batches))
            found = stream.result
        return naming_ignored(asked, JSONResponse(found))


async def _response_so_far(
    request: Request,
    gateway: Gateway,
    accepted: accepting.AcceptedTurn,
    stream: ResponseStream,
    batches: AsyncGenerator[list[ResponseEvent], None],
) -> dict[str, Any]:
    """Return the response as soon as its position is known: once a worker has applied its message."""
    if accepted.start.item_id is None:  # it is known already
        position = accepted.start.position
        return await gateway.calls.histories.run(read_response, accepted.task, stream.head, position)
    try:
        async with aclosing(batches), asyncio.timeout(gateway.settings.call_timeout):
            await answer_while_connected(request, gateway.closing, anext(batches))
    except TimeoutError:
        detail = "no worker has applied the message yet; it is accepted"
        raise Problem(503, "unavailable", detail, "read the task", {"x-should-retry": "false"}) from None
    return stream.result


@router.get("/responses/{response_id}", summary="Get a response", responses=STREAMED)
async def get_response(
    response_id: str,
    caller: Caller,
    gateway: TheGateway,
    stream: bool = False,
    starting_after: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """Return a response as of now, or stream its events, all or those after a sequence number."""
    caller.require(Scope.READ)
    found = ResponseId.parse(response_id)
    line = gateway.calls.streams if stream else gateway.calls.histories  # many clients resume their streams at once
    task, head, whole = await line.run(_find_response, gateway, caller, found)
    if not stream:
        return JSONResponse(whole)
    async with AsyncExitStack() as held:
        await held.enter_async_context(gateway.limits.open_stream(caller))
        events = answer_pieces(task, ResponseStream(head, ResponseStart(found.position)), None)
        return event_stream(gateway, response_frames(events, starting_after), held)


@router.post("/responses/{response_id}/cancel", summary="Cancel a response")
async def cancel_response(response_id: str, caller: Caller, gateway: TheGateway) -> JSONResponse:
    """End the work on a response: the connection to the model closes, the text so far stays, and the task waits.

    A response that has ended stays as it is.
    """
    caller.require(Scope.CONTROL)
    found = ResponseId.parse(response_id)
    reads = gateway.calls.histories
    task, head, now = await reads.run(_find_response, gateway, caller, found)
    if now["status"] in ("queued", "in_progress"):
        item_id = f"oa-cancel-{sha256(f'{task.task_id}/{found.position}')[:32]}"
        seconds = min(CANCEL_SECONDS, gateway.settings.call_timeout / 2)
        await gateway.calls.controls.run(task.interrupt, item_id=item_id, timeout=seconds, by=caller.by)
        now = await reads.run(read_response, task, head, found.position)
    return JSONResponse(now)


@router.get("/responses/{response_id}/input_items", summary="List the input of a response")
async def list_input_items(
    response_id: str,
    caller: Caller,
    gateway: TheGateway,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
    after: str | None = None,
) -> dict[str, Any]:
    """Return a page of the messages and results that led to a response."""
    caller.require(Scope.READ)
    found = ResponseId.parse(response_id)
    task = await gateway.task(caller, found.task_id)
    head = await _head(gateway, caller, task)
    items = await gateway.calls.histories.run(input_items, task, head, found.position)
    return page_of(items, limit, order, after)


@router.delete("/responses/{response_id}", summary="Not possible: histories are not erased")
async def delete_response(response_id: str, caller: Caller, gateway: TheGateway) -> Response:
    """Refuse: a response is a part of a history, whose steps are never erased one by one."""
    caller.require(Scope.CONTROL)
    found = ResponseId.parse(response_id)
    await gateway.task(caller, found.task_id)
    detail = "a response is a part of the history of its task, which is kept as a whole"
    remedy = "stop the task with the REST API; the operator's retention removes tasks"
    raise Problem(405, "method_not_allowed", detail, remedy, {"Allow": "GET"})


async def _accept(
    request: Request, body: ResponseBody, asked: Asked, caller: Principal, gateway: Gateway
) -> accepting.AcceptedTurn:
    if body.include and any("logprobs" in name for name in body.include):
        raise wrong_parameter("include", "log probabilities are not recorded")
    conversation, previous = body.conversation_id, body.previous_response_id
    if conversation is not None and previous is not None:
        raise wrong_parameter("previous_response_id", "cannot be combined with conversation")
    found = None
    if conversation is not None:
        found = await gateway.calls.reads.run(accepting.find_conversation, gateway, caller, conversation)
    earlier = earlier_turn(input_entries(found.items if found is not None else []))
    known = conversation is not None or previous is not None
    entries, item_id = after_reference(input_entries(body.input))
    turn = turn_of(entries, "input", known or item_id is not None)
    if item_id is not None and not known and not turn.answers:
        previous = str(await gateway.calls.histories.run(accepting.response_of_item, gateway, caller, item_id))
    given = (earlier.instructions, body.instructions, turn.instructions)
    turn = replace(turn, instructions="\n\n".join(filter(None, given)))
    options = body.roboco
    continues = conversation is not None or previous is not None or bool(turn.answers)
    accepted = accepting.TurnRequest(
        gateway=gateway,
        caller=caller,
        repetition=await repetition_of(request, caller),
        team=body.model,
        turn=turn,
        immediate=bool(body.stream or body.background),
        task_options={"conversation": True, **options.of_task()},
        message_options=options.of_message() | asked.with_form(turn.instructions, continues),
    )
    if turn.answers:
        return await accepting.accept_answers(accepted, _answered_task(body, turn.answered_task))
    if previous is not None:
        return await accepting.accept_after_response(accepted, ResponseId.parse(previous))
    if found is not None:
        return await accepting.accept_in_conversation(accepted, found, earlier)
    return await accepting.accept_new(accepted)


def _answered_task(body: ResponseBody, named: str) -> str:
    """Return the task whose calls the request answers. Raise Problem if its fields name different ones, or none."""
    if body.previous_response_id is not None:
        expected = ResponseId.parse(body.previous_response_id).task_id
    elif body.conversation_id is not None:
        expected = task_of_conversation(body.conversation_id)
    else:
        expected = named
    if not expected or named not in ("", expected):
        raise wrong_parameter("input", "the results belong to calls of another response")
    return expected


def _find_response(gateway: Gateway, caller: Principal, found: ResponseId) -> tuple[Task, ResponseHead, dict[str, Any]]:
    """Return the task of a response, and the response as of now. Raise Problem `not_found` if there is none."""
    task = gateway.find_task(caller, found.task_id)
    head = _head_of(caller, task)
    return task, head, read_response(task, head, found.position)


async def _head(gateway: Gateway, caller: Principal, task: Task, body: ResponseBody | None = None) -> ResponseHead:
    return await gateway.calls.reads.run(_head_of, caller, task, body)


def _head_of(caller: Principal, task: Task, body: ResponseBody | None = None) -> ResponseHead:
    summary = task.stored_summary()
    previous = None if body is None else body.previous_response_id
    return ResponseHead(
        task_id=shown_task_id(caller, task.task_id),
        team=summary.team,
        previous_response_id=previous,
        background=None if body is None else bool(body.background),
    )
