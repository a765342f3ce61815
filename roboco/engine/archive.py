"""archive: keep a task's summary and events in its workspace, and close it when it has ended."""

import json

from roboco.domain.event_file import as_stored
from roboco.domain.paths import events_path, open_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.domain.summary import TaskSummary
from roboco.engine import delegate, notify
from roboco.engine.engine import Engine
from roboco.ports import Snapshot

FIRST_FOLD = 16


def fold_due(seq: int) -> bool:
    """Whether the history is folded after the step at this position: after 16 steps, 256, 4096, and so on.

    Each step is stored as a segment, written by the folds on the way (a fifteenth of all together) and once more when
    the task ends. Readers fetch segments many at a time, so that they can wait for that.
    """
    return _due(seq, FIRST_FOLD)


def _due(seq: int, factor: int) -> bool:
    point = FIRST_FOLD
    while point < seq + 1:
        point *= factor
    return point == seq + 1


def archive(engine: Engine, task_id: str, task: Snapshot, status: TaskStatus, reason: str) -> None:
    """Write the summary of a waiting task and, where enough has come on top, its events."""
    if any(_due(seq, 2) or seq < FIRST_FOLD for seq in range(_archived(engine, task_id), task.seq)):
        _write_events(engine, task_id)
    _write_summary(engine, task_id, task, status, reason)


def finish(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Close an ended task: its workspace is complete, and Redis forgets it after a while. Twice is once."""
    engine.histories.fold(task_id)
    _write_events(engine, task_id)
    summary = _write_summary(engine, task_id, task, task.status, task.reason)
    delegate.report(engine, task_id, task)
    notify.tell(engine, task_id, task)
    engine.files.delete(open_path(task_id))
    engine.board.leave(task_id, engine.policy.keep)
    engine.agenda.drop(task_id)
    engine.telemetry.ended(summary)


def _write_events(engine: Engine, task_id: str) -> None:
    """Keep the log beside the events that an earlier generation of it left, which Redis has lost."""
    lines = [as_stored(line) for line in engine.logs.events(task_id, 0)]
    if not lines:
        return
    stored = (engine.files.get(events_path(task_id)) or b"").splitlines()
    current = _generation(lines[-1])
    lost = [line for line in stored if _generation(line) != current]
    engine.files.put(events_path(task_id), b"".join(line + b"\n" for line in [*lost, *lines]))


def _generation(line: bytes) -> object:
    return json.loads(line).get("generation")


def _write_summary(engine: Engine, task_id: str, task: Snapshot, status: TaskStatus, reason: str) -> TaskSummary:
    summary = TaskSummary(
        task_id=task_id,
        team=engine.teams.get(task_id).name,
        status=status,
        reason=reason,
        steps=task.state.steps,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        agents=task.state.agents,
        tools=task.state.tools,
        created_at=engine.teams.began(task_id, task.state) or engine.now(),
        updated_at=engine.now(),
    )
    engine.files.put(summary_path(task_id), summary.model_dump_json().encode())
    return summary


def _archived(engine: Engine, task_id: str) -> int:
    """How many steps the task had when it was archived last."""
    data = engine.files.get(summary_path(task_id))
    return 0 if data is None else TaskSummary.model_validate_json(data).steps
