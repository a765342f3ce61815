"""events.jsonl: the events in the workspace. The event of a step's end refers to the step, which is in the history."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TaskStep

_STEP_END, _TASK_END = b'"event_step_end"', b'"event_task_end"'


def to_stored(message: bytes) -> bytes:
    """Return the line of an event's message. A message that is in the stored form already remains unchanged."""
    if _STEP_END not in message:
        return message
    record: dict[str, Any] = json.loads(message)
    step = record.pop("step", None)
    return message if step is None else canonical_json(record | {"step_seq": step["seq"]}).encode()


def merged_log(stored: bytes, log: Sequence[bytes]) -> bytes | None:
    """Return the file with the lines of the log, or None if the log has nothing that the file lacks.

    The log is one generation, and its first lines may be trimmed. The file keeps those, and the lines of generations
    that Redis has lost. It drops an end of such a generation: the task has continued, or its end was decided again. A
    log of an earlier generation than the last one of the file is out of date.
    """
    if not log:
        return None
    lines, (generation, last) = stored.splitlines(), _numbers(log[-1])
    places = [_numbers(line) for line in lines]
    if places and places[-1][0] != generation and any(of == generation for of, _ in places):
        return None
    if places and places[-1][0] == generation and places[-1][1] >= last:
        return None
    first = _numbers(log[0])[1]
    found = zip(lines, places, strict=True)
    kept = [line for line, (of, seq) in found if (seq < first if of == generation else _TASK_END not in line)]
    return b"".join(line + b"\n" for line in [*kept, *log])


def _numbers(line: bytes) -> tuple[object, int]:
    """Return the generation and the number of a line."""
    record = json.loads(line)
    return record.get("generation"), int(record["seq"])


def from_stored(
    records: Iterable[dict[str, Any]], read_steps: Callable[[int], Iterable[TaskStep]]
) -> Iterator[dict[str, Any]]:
    """Yield the messages of the lines' JSON, with the steps of the history inserted again.

    A message whose step the history has lost is left out: its follower then reads the history itself.
    """
    steps: Sequence[TaskStep] | None = None
    first = 0
    for record in records:
        seq = record.pop("step_seq", None)
        if seq is None:
            yield record
            continue
        if steps is None:
            first, steps = seq, tuple(read_steps(seq))
        if seq - first < len(steps):
            yield record | {"step": steps[seq - first].model_dump(mode="json")}
