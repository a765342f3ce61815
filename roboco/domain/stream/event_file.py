"""events.jsonl and its segments: the events in the workspace.

The event of a step's end refers to the step, which is in the history. Events of large steps do so in Redis already. The
name of a segment is the generation of the logs and the number of its first event; its lines have consecutive numbers.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TaskStep

_SEGMENT = re.compile(r"(?P<generation>[A-Za-z0-9]+)-(?P<first>[0-9]{8}|[1-9][0-9]{8,})\.jsonl")
_NUMBERED = re.compile(rb'\{"seq":(?P<seq>[0-9]+),"generation":"(?P<generation>[A-Za-z0-9]*)",')
"""The beginning of a message as Redis numbers it (`publish` in Lua): most lines need no parse of their JSON."""
_STEP_END, _TASK_END = b'"event_step_end"', b'"event_task_end"'


def to_stored(message: bytes) -> bytes:
    """Return the line of an event's message. A message that is in the stored form already remains unchanged."""
    if _STEP_END not in message:
        return message
    record: dict[str, Any] = json.loads(message)
    step = record.pop("step", None)
    return message if step is None else canonical_json(record | {"step_seq": step["seq"]}).encode()


def merged_log(stored: bytes, segments: Sequence[bytes], log: Sequence[bytes]) -> bytes | None:
    """Return the file with the lines of its segments and of the log, or None if they have nothing that it lacks.

    The log is one generation, and its older lines may be trimmed: segments or the file have those. The file keeps the
    lines of generations that Redis has lost. It drops an end of such a generation: the task has continued, or its end
    was decided again. A log of an earlier generation than the last one of the file is out of date, unless it has the
    end of the task: Redis was set back before the last generation, and the task has ended there.
    """
    lines = {place_of(line): line for line in stored.splitlines()}
    newest = max(lines, default=("", 0))
    merged = dict(lines)
    for segment in segments:
        for line in segment.splitlines():
            merged.setdefault(place_of(line), line)
    places = [place_of(line) for line in log]
    has_end = any(_TASK_END in line for line in log)
    if places and (places[-1] > newest or has_end):
        # The log wins: if Redis was set back, its numbers were used again, and the file may have the lost ones.
        last = places[-1]
        merged = {at: line for at, line in merged.items() if at < last or (at[0] != last[0] and not has_end)}
        merged.update(zip(places, log, strict=True))
    generation = max(merged, default=("", 0))[0]
    found = {at: line for at, line in merged.items() if at[0] == generation or _TASK_END not in line}
    return None if found == lines else b"".join(found[place] + b"\n" for place in sorted(found))


def place_of(line: bytes) -> tuple[str, int]:
    """Return the generation and the number of a line. Later lines have greater places: generations sort by time."""
    if (match := _NUMBERED.match(line)) is not None:
        return match["generation"].decode(), int(match["seq"])
    record = json.loads(line)
    return str(record.get("generation", "")), int(record["seq"])


def segment_places(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return the generation and the first number of each segment among the names, in order. Ignore other names."""
    found = filter(None, map(_SEGMENT.fullmatch, names))
    return sorted((match["generation"], int(match["first"])) for match in found)


def from_stored(
    records: Iterable[dict[str, Any]], read_steps: Callable[[int], Iterable[TaskStep]]
) -> Iterator[dict[str, Any]]:
    """Yield the messages of the lines' JSON, in order, with the steps of the history inserted again.

    A message whose step the history has lost is left out: its follower then reads the history itself. `read_steps` is
    called once, with the first position that is needed, and again only if a later message needs an earlier step.
    """
    steps: Iterator[TaskStep] | None = None
    step: TaskStep | None = None
    for record in records:
        seq = record.pop("step_seq", None)
        if seq is None:
            yield record
            continue
        if steps is None or (step is not None and step.seq > seq):
            steps = iter(read_steps(seq))
            step = next(steps, None)
        while step is not None and step.seq < seq:
            step = next(steps, None)
        if step is not None and step.seq == seq:
            yield with_step(record, step)


def refers_to_step(record: dict[str, Any]) -> bool:
    """Return True if the message has a part of a step of the history left out."""
    return "step_seq" in record


def with_step(record: dict[str, Any], step: TaskStep) -> dict[str, Any]:
    """Return the message with the part of the step that it has left out, and without the step's position."""
    whole, step = {name: value for name, value in record.items() if name != "step_seq"}, step.shown
    match record["type"]:
        case "event_user_message":
            return whole | {"text": step.text}
        case "event_tool_call":
            called = whole["tool_call"]
            args = next((call.args for call in step.calls if call.id == called["id"]), {})
            return whole | {"tool_call": called | {"args": args}}
        case _:
            return whole | {"step": step.model_dump(mode="json")}
