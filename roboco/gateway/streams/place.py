"""Places: the ids of frames, which clients send back to resume. Pure; they are hostile input.

    of one task      CURSOR, or CURSOR~ after the end of the task
    with sub-tasks   as one, with the places in the sub-tasks of its open calls (`client/sub_task_stream.py`)
    of several tasks PLACE,PLACE..., in the order in which the request names the tasks; "" is the beginning of one

An id of several tasks names only positions. Which tasks a stream has depends on the request, whose caller needs access
to each. So an id of another caller, or with places of other tasks, reveals nothing.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from roboco.domain.stream.merged import Cursor, split_cursor
from roboco.errors import UsageError
from roboco.gateway.problem import Problem, invalid

MAX_TASKS: Final = 20
"""Tasks of one stream. Each frame has the places of all of them."""
MAX_PLACE_CHARS: Final = 130
END: Final = "~"


def check_place(place: str, subtasks: bool = False) -> str:
    """Return the place in the stream of a task, or "" for its beginning. Raise Problem if it is none."""
    if not place:
        return ""
    try:
        if len(place) > MAX_PLACE_CHARS and not subtasks:
            raise _wrong_place(place)
        (split_cursor if subtasks else Cursor.parse)(place.removesuffix(END))
    except UsageError:
        raise _wrong_place(place) from None
    return place


def is_end(place: str) -> bool:
    """Return True if the task ends before this place."""
    return place.endswith(END)


def end_place(place: str) -> str:
    """Return the place after the end of a task whose last item has this place."""
    return place if is_end(place) else f"{place or Cursor()}{END}"


def split_places(text: str, task_ids: Sequence[str]) -> dict[str, str]:
    """Return the place of each task from an id, in their order. Tasks after its last place are at their beginning.

    Raise Problem if the text is not an id of at most these tasks.
    """
    places = text.split(",", MAX_TASKS) if text else []
    if len(places) > len(task_ids):
        detail = f"the id has {len(places)} places, and the stream {len(task_ids)} tasks"
        raise invalid(detail, "send a place for each task, in the order of the tasks")
    return dict(zip_longest(task_ids, map(check_place, places), fillvalue=""))


def _wrong_place(text: str) -> Problem:
    return invalid(f"{text[:80]!r} is not the id of an event of this stream", "leave it out, or send the last id")
