"""Places: the ids of frames, which clients send back to resume. Pure; they are hostile input.

    of one task      CURSOR, or CURSOR~ after the end of the task
    of several tasks KEY-PLACE_KEY-PLACE..., where KEY is derived from the id of a task

An id of several tasks names only positions. Which tasks a stream has depends on the request, whose caller needs access
to each. So an id of another caller, or with places of other tasks, reveals nothing.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

from roboco.domain.stream.merged import Cursor
from roboco.errors import UsageError
from roboco.gateway.problem import Problem, invalid

MAX_TASKS: Final = 20
"""Tasks of one stream. Each frame has the places of all of them."""
MAX_PLACE_CHARS: Final = 130
END: Final = "~"
_KEY_CHARS: Final = 10
_ENTRY = re.compile(rf"([0-9a-f]{{{_KEY_CHARS}}})-([0-9a-ft.]+{END}?)", re.ASCII)


def check_place(place: str) -> str:
    """Return the place in the stream of a task, or "" for its beginning. Raise Problem if it is none."""
    if not place:
        return ""
    try:
        if len(place) > MAX_PLACE_CHARS:
            raise _wrong_place(place)
        Cursor.parse(place.removesuffix(END))
    except UsageError:
        raise _wrong_place(place) from None
    return place


def is_end(place: str) -> bool:
    """Return True if the task ends before this place."""
    return place.endswith(END)


def end_place(place: str) -> str:
    """Return the place after the end of a task whose last item has this place."""
    return place if is_end(place) else f"{place or Cursor()}{END}"


def join_places(places: Mapping[str, str]) -> str:
    """Return the id of the places of several tasks, by task id. A task at its beginning is left out."""
    return "_".join(f"{_key_of(task_id)}-{place}" for task_id, place in places.items() if place)


def split_places(text: str, task_ids: Iterable[str]) -> dict[str, str]:
    """Return the place of each task from an id; a task that the id lacks is at its beginning.

    Raise Problem if the text is not an id of several tasks.
    """
    found: dict[str, str] = {}
    entries = text.split("_", MAX_TASKS) if text else []
    for entry in entries:
        matched = _ENTRY.fullmatch(entry)
        if matched is None or len(entries) > MAX_TASKS:
            raise _wrong_place(text)
        found[matched[1]] = check_place(matched[2])
    return {task_id: found.get(_key_of(task_id), "") for task_id in task_ids}


@lru_cache(4096)
def _key_of(task_id: str) -> str:
    return sha256(task_id.encode()).hexdigest()[:_KEY_CHARS]


def _wrong_place(text: str) -> Problem:
    return invalid(f"{text[:80]!r} is not the id of an event of this stream", "leave it out, or send the last id")
