"""query: the parameters of streams, and the form in which a client reads one."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from fastapi import Header, Request
from pydantic import BaseModel, ConfigDict, Field

from roboco.domain.reading_form import StreamForm
from roboco.gateway.problem import invalid
from roboco.gateway.streams.form import Form, LinesOfJson, ServerSentEvents
from roboco.gateway.streams.place import MAX_TASKS
from roboco.gateway.streams.selection import StreamChannel

MAX_PLACES_CHARS: Final = 4096

LastEventId = Annotated[
    str | None,
    Header(
        max_length=MAX_PLACES_CHARS,
        description="The id of the last event that the client has. Browsers send it. It wins over `after`.",
    ),
]


class Format(StrEnum):
    """The format of a stream."""

    SSE = "sse"
    NDJSON = "ndjson"
    JSON = "json"
    """One page, at once or after a wait."""


class StreamQuery(BaseModel):
    """Parameters of every stream."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[str, Field(max_length=MAX_PLACES_CHARS)] = ""
    """The id of the last event that the client has. The stream continues after it."""
    channel: StreamChannel | None = None
    """Only texts, tool calls and steps (`content`), or only execution events (`events`)."""
    agent: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Only items of this agent, and those that concern the whole task."""


class TaskQuery(StreamQuery):
    """Parameters of the stream of a task."""

    format: Format | None = None
    """`sse`, `ndjson`, or `json` for one page. By default the header Accept decides: `application/x-ndjson` or SSE."""
    wait: Annotated[float, Field(ge=0, le=30)] = 0.0
    """Seconds that a page waits for its first item (long polling)."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """The most items of a page."""
    subtasks: Literal["1", "true"] | None = None
    """Set it to 1 for the items of its sub-tasks, too. The data of each item are then its `task_id` and `data`."""
    form: StreamForm | None = None
    """The names of the document with this number: deltas and steps (`000`), or chunks and events (`001`, `002`)."""


class TasksQuery(StreamQuery):
    """Parameters of a stream of several tasks, or of the task list."""

    tasks: Annotated[str, Field(max_length=MAX_TASKS * 180)] = ""
    """Ids of tasks, separated by commas: at most 20. `after` has their places in this order."""
    begin: Literal["first", "running"] = "first"
    """Where a task without a place begins: at its `first` item, or with its `running` step."""
    list: Literal["1", "true"] | None = None
    """Set it to 1 for the changes of the task list, instead of `tasks`."""
    status: Annotated[str, Field(max_length=200)] = ""
    """Of the list: statuses or the groups open, waiting and ended, separated by commas."""
    team: Annotated[str, Field(max_length=200)] | None = None
    """Of the list: the name of the team."""
    text: Annotated[str, Field(max_length=200)] = ""
    """Of the list: a part of the title."""
    format: Literal[Format.SSE, Format.NDJSON] | None = None
    """`sse` or `ndjson`. By default the header Accept decides: `application/x-ndjson`, else SSE."""

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The ids of the tasks, each once. Raise Problem if there are too many."""
        found = tuple(dict.fromkeys(name for name in self.tasks.split(",") if name))
        if len(found) > MAX_TASKS:
            raise invalid(f"{len(found)} tasks are too many for one stream", f"name at most {MAX_TASKS}")
        return found

    def check(self) -> None:
        """Raise Problem unless the parameters name either tasks or the list, and only what applies to it."""
        if bool(self.task_ids) == bool(self.list):
            raise invalid("a stream has either tasks or the list", "send ?tasks=ID,ID or ?list=1")
        of_list = [name for name in ("status", "team", "text") if getattr(self, name)]
        of_tasks = [name for name in ("channel", "agent") if getattr(self, name)]
        of_tasks += ["begin"] if self.begin != "first" else []
        if wrong := of_tasks if self.list else of_list:
            other = "tasks" if self.list else "the list"
            raise invalid(f"{', '.join(wrong)} applies to a stream of {other} alone", "leave it out")


def form_of(request: Request, chosen: Format | None) -> type[Form]:
    """Return the form of a stream: the chosen one, or that of the header Accept."""
    accepted = request.headers.get("accept", "")
    as_lines = chosen is Format.NDJSON or (chosen is None and LinesOfJson.media_type in accepted)
    return LinesOfJson if as_lines else ServerSentEvents


def is_event_source(request: Request, form: type[Form]) -> bool:
    """Return True if the client reads server-sent events as browsers do.

    A browser asks again after the end of a stream, but never after a status other than 200. So a gateway that is busy
    answers it with a stream that names the error and ends.
    """
    return form is ServerSentEvents and form.media_type in request.headers.get("accept", "")
