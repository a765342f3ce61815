"""events.jsonl: the events as the workspace keeps them. The end of a step names the step, which the history holds."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from roboco.domain.canonical import canonical
from roboco.domain.step import TaskStep

_STEP_END = b'"event_step_end"'


def as_stored(message: bytes) -> bytes:
    """The line of an event's message; one that is as stored already stays as it is."""
    if _STEP_END not in message:
        return message
    record: dict[str, Any] = json.loads(message)
    step = record.pop("step", None)
    return message if step is None else canonical(record | {"step_seq": step["seq"]}).encode()


def as_sent(
    records: Iterable[dict[str, Any]], read_steps: Callable[[int], Iterable[TaskStep]]
) -> Iterator[dict[str, Any]]:
    """The messages of the lines' JSON, with the steps of the history put back in.

    A step that the history has lost is left out with its message: who follows then reads the history itself.
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
