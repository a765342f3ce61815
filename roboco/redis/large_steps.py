"""Steps that are too large for Redis. Redis holds their position and digest; the history in the workspace holds them.

    first step of more than 16 KB ─► {"digest", "seq"}                       the newest steps: 64 KB together
    last step of more than 64 KB  ─► none of the newest steps is in Redis    the state names its digest

So hostile steps cannot fill Redis: the memory of a task does not depend on the size of its steps.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.stream.event import MAX_LOGGED_BYTES
from roboco.errors import CorruptHistory
from roboco.ports.task_store import HeldSteps

_REFERENCE: Final = '{"digest":'
"""The beginning of a reference. A step's line begins with its agent."""
_MAX_CACHED_LINE_CHARS: Final = 4096
"""Characters of a line whose step is cached, so that the cache takes a few dozen megabytes at most."""
_MAX_CACHED_LARGE_STEPS: Final = 16

ReadLargeSteps = Callable[[str, int], Iterable[TaskStep]]
"""Returns the steps of a task in the workspace from a position on."""


def no_steps(task_id: str, seq: int) -> Iterable[TaskStep]:
    """Return no steps, for a process that does not read the workspace."""
    return ()


class StoredSteps:
    """Reads the steps that Redis refers to. A few of them are cached: a digest names one step for ever."""

    def __init__(self, read: ReadLargeSteps) -> None:
        self._read = read
        self._at = lru_cache(_MAX_CACHED_LARGE_STEPS)(self._read_at)

    def of(self, task_id: str, fields: Mapping[str, str], lines: Sequence[str]) -> HeldSteps:
        """Return the first and the newest steps of the task with these fields of its hash and lines of its tail."""
        first, seq = fields["first_step"], int(fields["seq"])
        if first.startswith(_REFERENCE):
            first_step = self._at(task_id, 0, json.loads(first)["digest"])
        else:
            first_step = parse_line(first)
        if lines:
            return HeldSteps(first_step, tuple(map(parse_line, lines)))
        last_digest = json.loads(fields["history_state"])["last_digest"]
        return HeldSteps(first_step, (self._at(task_id, seq - 1, last_digest),))

    def _read_at(self, task_id: str, seq: int, digest: str) -> TaskStep:
        step = next(iter(self._read(task_id, seq)), None)
        if step is None or step.digest != digest:
            raise CorruptHistory(
                f"step {seq} of task {task_id!r} is too large for Redis, and the workspace lacks it: restore its folder"
            )
        return step


def first_line(step: TaskStep) -> str:
    """Return the line of the first step for Redis, or a reference if it is too large."""
    line = step.line()
    return line if len(line.encode()) <= MAX_LOGGED_BYTES else canonical_json({"digest": step.digest, "seq": step.seq})


def parse_line(line: str) -> TaskStep:
    """Return the step of a line. Short ones are cached, because the next turn reads them again."""
    return _cached_step(line) if len(line) <= _MAX_CACHED_LINE_CHARS else parse_step(line)


_cached_step = lru_cache(maxsize=2048)(parse_step)
