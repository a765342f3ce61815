"""Tasks that are expensive to show: one of 10,000 steps in the workspace, and many that write at the same time.

    a real task of six steps ─► its steps and events, again and again ─► history.jsonl, events.jsonl, task.json
       (new ids, numbers, times, texts)          └─► a new chain of digests

The gateway serves the long task as any ended task that Redis no longer has. Its digests are right, and so are the
numbers of its events and chunks.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from roboco import Task
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import digest_of
from roboco.domain.task_summary import entry_of, parse_summary
from tests.support.browser.stack import WebStack
from tests.support.browser.teams import words
from tests.support.stack import until

Json = dict[str, Any]
LONG_TASK_STEPS: Final = 10_000
ID: Final = re.compile(r"\b(step|tc)_[0-9a-f]{32}\b")
TEXT_LENGTHS: Final = (3, 12, 40, 7, 150, 25)
"""Words of the texts, in turn: rows of a conversation have different heights."""


@dataclass(frozen=True)
class _Recording:
    """The steps and events of a real task. `first` is the number of its events until the end of the user's step."""

    steps: list[Json]
    events: list[Json]
    summary: Json
    first: int

    @property
    def block_steps(self) -> int:
        return len(self.steps) - 1

    @property
    def block_events(self) -> list[Json]:
        """The events of one repetition: those between the user's step and the end of the task."""
        return self.events[self.first : -1]

    @property
    def block_chunks(self) -> int:
        return int(self.events[-1]["chunks"])

    @property
    def duration(self) -> timedelta:
        return datetime.fromisoformat(self.events[-1]["timestamp"]) - datetime.fromisoformat(
            self.events[0]["timestamp"]
        )


def write_long_task(web: WebStack, steps: int = LONG_TASK_STEPS, task_id: str = "long") -> Task:
    """Write an ended task of at least this number of steps into the workspace and the task list, and return it."""
    recording, template = _record(web)
    repetitions = -(-(steps - 1) // recording.block_steps)
    folder = template.parent / task_id
    folder.mkdir()
    (folder / "team.json").write_bytes((template / "team.json").read_bytes())
    (folder / "history.jsonl").write_text("".join(f"{line}\n" for line in _history(recording, repetitions)))
    events = [json.dumps(event | {"task_id": task_id}) for event in _events(recording, repetitions)]
    (folder / "events.jsonl").write_text("".join(f"{event}\n" for event in events))
    summary = json.dumps(_summary(recording, repetitions) | {"task_id": task_id, "title": f"{steps} steps"}).encode()
    (folder / "task.json").write_bytes(summary)
    stored = parse_summary(summary)
    assert stored is not None
    web.stack.orchestrator._engine.tasks.task_index.put([entry_of(stored)])
    return web.stack.orchestrator.stored_task(task_id)


def _record(web: WebStack) -> tuple[_Recording, Path]:
    """Run a task with calls and a handoff, and return what the workspace has of it, with its folder."""
    task = web.run("handoffs", "Add some numbers, again and again.")
    assert task.result(60).status == "completed"
    folder = web.stack.folder / "workspace" / task.task_id
    until((folder / "events.jsonl").exists, 60, "the events are stored")
    until(lambda: '"event_task_end"' in (folder / "events.jsonl").read_text(), 60, "all events are stored")
    steps, events = (_read_lines(folder / name) for name in ("history.jsonl", "events.jsonl"))
    first = next(number for number, event in enumerate(events, 1) if event.get("step_seq") == 0)
    return _Recording(steps, events, json.loads((folder / "task.json").read_text()), first), folder


def _read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _history(recording: _Recording, repetitions: int) -> Iterator[str]:
    """Yield the lines of the history, with a right chain of digests."""
    digest = ""
    for seq, step in enumerate(_steps(recording, repetitions)):
        sealed = step | {"seq": seq, "prev_digest": digest}
        digest = digest_of(sealed)
        yield canonical_json(sealed | {"digest": digest})


def _steps(recording: _Recording, repetitions: int) -> Iterator[Json]:
    yield recording.steps[0]
    for repetition in range(repetitions):
        for position, step in enumerate(recording.steps[1:]):
            changed = _shift(step, recording, repetition)
            number = repetition * recording.block_steps + position
            for part in changed["parts"]:
                if part["type"] == "text":
                    part["text"] = f"{number}: {''.join(words(TEXT_LENGTHS[number % len(TEXT_LENGTHS)]))}"
            yield changed


def _events(recording: _Recording, repetitions: int) -> Iterator[Json]:
    """Yield the events, numbered anew."""
    yield from recording.events[: recording.first]
    seq = recording.first
    for repetition in range(repetitions):
        for event in recording.block_events:
            seq += 1
            changed = _shift(event, recording, repetition) | {"seq": seq}
            changed["chunks"] += repetition * recording.block_chunks
            if "step_seq" in changed:
                changed["step_seq"] += repetition * recording.block_steps
            yield changed
    end = _shift(recording.events[-1], recording, repetitions - 1)
    yield end | {
        "seq": seq + 1,
        "chunks": repetitions * recording.block_chunks,
        "usage": _usage(recording, repetitions),
    }


def _shift(record: Json, recording: _Recording, repetition: int) -> Json:
    """Return a copy of a step or event with the ids and times of a repetition. The first one keeps its own."""

    def new_id(found: re.Match[str]) -> str:
        return f"{found[1]}_{hashlib.sha256(f'{repetition} {found[0]}'.encode()).hexdigest()[:32]}"

    text = json.dumps(record)
    changed: Json = json.loads(ID.sub(new_id, text) if repetition else text)
    for name in {"created_at", "timestamp"} & changed.keys():
        time = datetime.fromisoformat(changed[name]) + repetition * recording.duration
        changed[name] = time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return changed


def _usage(recording: _Recording, repetitions: int) -> Json:
    own: Json = recording.events[-1]["usage"]
    return {name: value * repetitions for name, value in own.items()} | {"steps": _count_steps(recording, repetitions)}


def _summary(recording: _Recording, repetitions: int) -> Json:
    return recording.summary | _usage(recording, repetitions)


def _count_steps(recording: _Recording, repetitions: int) -> int:
    return 1 + repetitions * recording.block_steps
