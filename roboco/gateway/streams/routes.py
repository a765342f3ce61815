"""routes: the streams of the gateway.

request ─► caller, scope, tasks (401, 403, 404) ─► place (400) ─► end known: 204 ─► slot (429) ─► LiveResponse
           a browser gets 429 and 503 as a stream that names the error and ends: it asks again later
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from roboco.client.task import Task
from roboco.domain.task_filter import parse_statuses
from roboco.errors import CorruptHistory, TransientError
from roboco.gateway.access import Caller
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, problem_of
from roboco.gateway.rest.parameters import listed_teams
from roboco.gateway.rest.responses import problems
from roboco.gateway.streams.ending import failed
from roboco.gateway.streams.event_page import EventPage, read_page
from roboco.gateway.streams.form import Form, ServerSentEvents, Source
from roboco.gateway.streams.live_response import HEADERS, LiveResponse
from roboco.gateway.streams.place import check_place, end_place, is_end, split_places
from roboco.gateway.streams.query import Format, LastEventId, TaskQuery, TasksQuery, form_of, is_event_source
from roboco.gateway.streams.selection import Selection
from roboco.gateway.streams.task_list_source import TaskListSource, check_list_place
from roboco.gateway.streams.task_source import TaskSource
from roboco.gateway.streams.tasks_source import TasksSource

_EVENT: Final = (
    'id: 0192f7a1c2d3.5.12.1.1.12\nevent: text_part_delta\ndata: {"type":"text_part_delta","text":"The sea",'
    '"step_id":"step_1f","agent_name":"writer","attempt":1,"replace":false}\n\n'
)
_LINE: Final = '{"id":"0192f7a1c2d3.5.12.1.1.12","type":"text_part_delta","data":{"text":"The sea"}}\n'
_EVENT_OF_TASKS: Final = (
    'id: 0192f7a1c2d3.5.12.1.1.12,,0192f7a1c9e0.2.0.0.1.0\nevent: text_part_delta\ndata: {"task_id":"acme:tide",'
    '"place":"0192f7a1c2d3.5.12.1.1.12","data":{"text":"The sea","step_id":"step_1f"}}\n\n'
)
_LINE_OF_TASKS: Final = (
    '{"id":"0192f7a1c2d3.5.12.1.1.12,,0192f7a1c9e0.2.0.0.1.0","type":"text_part_delta",'
    '"data":{"task_id":"acme:tide","place":"0192f7a1c2d3.5.12.1.1.12","data":{"text":"The sea"}}}\n'
)
_PAGE: Final = {
    "type": "object",
    "required": ["items", "cursor", "ended"],
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "type", "data"],
                "properties": {"id": {"type": "string"}, "type": {"type": "string"}, "data": {"type": "object"}},
            },
        },
        "cursor": {"type": "string"},
        "ended": {"type": "boolean"},
    },
}
_STREAM: Final[dict[str, Any]] = {
    "text/event-stream": {"schema": {}, "example": _EVENT},
    "application/x-ndjson": {"schema": {"type": "string"}, "example": _LINE},
}
_STREAM_OF_TASKS: Final[dict[str, Any]] = {
    "text/event-stream": {"schema": {}, "example": _EVENT_OF_TASKS},
    "application/x-ndjson": {"schema": {"type": "string"}, "example": _LINE_OF_TASKS},
}
_ENDED: Final[dict[str, Any]] = {"description": "The task has ended, and the client has its last event."}

router = APIRouter(prefix="/v1", tags=["streams"], responses=problems(404))


@router.get(
    "/tasks/{task_id}/events",
    summary="Follow a task",
    response_class=Response,
    responses={
        200: {
            "description": "The items after the place, live until the task has ended.",
            "content": _STREAM | {"application/json": {"schema": _PAGE}},
        },
        204: _ENDED,
    },
)
async def follow_task(
    task_id: str,
    request: Request,
    caller: Caller,
    gateway: TheGateway,
    query: Annotated[TaskQuery, Query()],
    last_event_id: LastEventId = None,
) -> Response:
    """Follow a task: each item once and in order, from any gateway process. A disconnect does not affect the task."""
    caller.require(Scope.READ)
    form = form_of(request, query.format)
    try:
        task = await gateway.followed_task(caller, task_id)
        subtasks = query.subtasks is not None
        place = check_place(last_event_id or query.after, subtasks)
        if query.format is Format.JSON:
            return await _page(gateway, caller, query, task, place)
        if is_end(place):
            return Response(status_code=204, headers=HEADERS)
        return await _live(gateway, caller, TaskSource(task, place, _selection(query), form, subtasks))
    except (Problem, TransientError) as error:
        return _refused(request, form if query.format is not Format.JSON else None, error)


@router.get(
    "/events",
    summary="Follow several tasks, or the task list",
    response_class=Response,
    responses={
        200: {"description": "The items of all tasks, or changes of the list.", "content": _STREAM_OF_TASKS},
        204: _ENDED,
    },
)
async def follow_tasks(
    request: Request,
    caller: Caller,
    gateway: TheGateway,
    query: Annotated[TasksQuery, Query()],
    last_event_id: LastEventId = None,
) -> Response:
    """Follow several tasks, or the changes of the task list, in one connection.

    The id of an event has the place of each task, in the order of `tasks`, separated by commas; an empty one is the
    beginning. To add or remove a task, connect again with the places of the tasks that it then has.
    """
    caller.require(Scope.READ)
    query.check()
    form, place = form_of(request, query.format and Format(query.format)), last_event_id or query.after
    try:
        if query.list:
            return await _live(gateway, caller, _list_source(gateway, caller, query, place, form))
        tasks, damaged = await _followed_tasks(gateway, caller, query.task_ids)
        places = split_places(place, list(dict.fromkeys(map(caller.task_id, query.task_ids))))
        if query.begin == "running":
            new = [task for task in tasks if not places[task.task_id]]
            places |= await gateway.calls.streams.run(_running_places, new)
        if all(map(is_end, places.values())):
            return Response(status_code=204, headers=HEADERS)
        return await _live(
            gateway, caller, TasksSource(tasks, places, Selection(query.channel, query.agent), form, damaged)
        )
    except (Problem, TransientError) as error:
        return _refused(request, form, error)


async def _followed_tasks(
    gateway: Gateway, caller: Principal, task_ids: Iterable[str]
) -> tuple[list[Task], dict[str, Problem]]:
    """Return the tasks, and by id the problems of those whose record is damaged."""
    tasks, damaged = list[Task](), dict[str, Problem]()
    for task_id in task_ids:
        try:
            tasks.append(await gateway.followed_task(caller, task_id))
        except CorruptHistory as error:
            damaged[caller.task_id(task_id)] = problem_of(error)
    return tasks, damaged


def _list_source(
    gateway: Gateway, caller: Principal, query: TasksQuery, place: str, form: type[Form]
) -> TaskListSource:
    statuses = parse_statuses(name for name in query.status.split(",") if name)
    teams = listed_teams(caller, None if query.team is None else [query.team])
    tasks = gateway.task_lists.of(caller.tenant, teams, query.text)
    return TaskListSource(tasks.read, check_list_place(place), statuses, form)


def _running_places(tasks: list[Task]) -> dict[str, str]:
    """Return the place before the running step of each task; after the end of one that has ended."""
    places = {}
    for task in tasks:
        cursor = task.recent_cursor()
        places[task.task_id] = end_place("") if cursor is None and task.stored_summary().status.ended else cursor or ""
    return places


def _selection(query: TaskQuery) -> Selection:
    return Selection(query.channel, query.agent, query.form)


async def _live(gateway: Gateway, caller: Principal, source: Source[Any]) -> Response:
    slot = gateway.limits.open_stream(caller)
    await slot.__aenter__()
    return LiveResponse(source, gateway.streams, slot)


async def _page(gateway: Gateway, caller: Principal, query: TaskQuery, task: Task, place: str) -> Response:
    """Return one page. It counts as a stream of the caller while it waits."""
    page, selection = EventPage((), place), _selection(query)
    if not is_end(place):
        items = task.astream_with_gaps(place or None, subtasks=query.subtasks is not None)
        async with gateway.limits.open_stream(caller):
            page = await read_page(items, place, selection.shows, query.limit, query.wait)
    return Response(page.json(selection), media_type="application/json", headers=HEADERS)


def _refused(request: Request, form: type[Form] | None, error: Problem | TransientError) -> Response:
    """Return the error to a browser as a stream that ends, if the same request may succeed later. Else raise it."""
    ending = failed(error)
    may_succeed = ending.problem is not None and ending.problem.status in (429, 503)
    if form is None or not (may_succeed and is_event_source(request, form)):
        raise error
    return Response(ServerSentEvents.end("", ending), media_type=form.media_type, headers=HEADERS)
