"""events.jsonl: the events as the workspace keeps them. The end of a step names the step, which the history holds."""

import json
from collections.abc import Iterable, Sequence
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


def as_sent(lines: Iterable[bytes], steps: Sequence[TaskStep]) -> list[dict[str, Any]]:
    """The messages of the lines, with the steps of the history put back in."""
    return [_with_step(json.loads(line), steps) for line in lines]


def _with_step(record: dict[str, Any], steps: Sequence[TaskStep]) -> dict[str, Any]:
    seq = record.pop("step_seq", None)
    return record if seq is None else record | {"step": steps[seq].model_dump(mode="json")}
