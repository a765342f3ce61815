"""remote_turn: an end of a turn that is not the end of its remote task cancels the task before the step is appended.

    interrupted, stopped, failed, at a limit, another profile ─► settle ─► CancelTask ─► outcome (put) ─► step
    no worker has the turn ─► coordinator ─► message (CANCELS) ─► any agents worker ───┘       (no claim)

A cancellation may be repeated: the agent answers that the task has ended. If the worker dies before the step, a
coordinator that would append a step in its place sends a message to cancel, until the record has an end, or for a lease
and REMOTE_STOP_SECONDS (`remote_end.py`). A cancellation that fails, and a task that no worker could cancel, are in the
metadata of the step, `remote_task`.
"""

import logging

from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.engine.coordinate.remote_end import close_turn, remote_profiles
from roboco.engine.engine import Engine
from roboco.errors import ModelError
from roboco.ports.assignment import TurnAssignment
from roboco.ports.model import Reply, Request
from roboco.ports.remote_task import RemoteTask, address_hash, records_of_turn
from roboco.ports.snapshot import TaskPosition

_log = logging.getLogger(__name__)


def settle(
    engine: Engine, team: Team, task_id: str, turn: TaskPosition, sent: RemoteTask | None = None, closes: bool = True
) -> dict[str, object]:
    """Cancel the remote task of the pending turn, unless it has ended. Return the metadata of the turn's step, or {}.

    `sent` is the message of this attempt. If the turn `closes`, no late worker sends one. Cost: nothing, if `sent` has
    the end of its task; else as `close_turn`.
    """
    profiles, files = remote_profiles(team, turn.agent), engine.workspace.files
    if not profiles:
        return {}
    if sent is not None and sent.record.task:
        number, record = sent.number, sent.record
    else:
        if closes:
            close_turn(files, team, task_id, turn)
        records = records_of_turn(files, task_id, turn.seq)
        if not records or records[-1].is_void:
            return {}
        number, record = len(records) - 1, records[-1]
    if not record.runs:
        return record.metadata()
    profile = next((one for one in profiles if address_hash(one.base_url) == record.agent), profiles[0])
    address = str(profile.base_url)
    remote = RemoteTask(files, task_id, turn.seq, turn.epoch, address, cancels=True, number=number, record=record)
    remote.note_end(*_cancel(engine, task_id, profile, remote))
    return remote.record.metadata()


def _cancel(engine: Engine, task_id: str, profile: ModelProfile, remote: RemoteTask) -> tuple[str, str]:
    """Cancel the task. Return the state in which it has ended, or "" and why it may still run."""
    stream = engine.services.call_model(Request(profile, (), (), tenant=tenant_of(task_id), remote=remote), None)
    state, error = "", "the agents worker ends"
    try:
        for piece in stream:
            state, error = (state, "") if isinstance(piece, Reply) else (state + piece, error)
    except ModelError as failure:
        error = str(failure)
    finally:
        stream.close()
    if error:
        _log.warning("remote task %r of step %d of task %s: %s", remote.record.task, remote.seq, task_id, error)
    return "" if error else state, error


def cancel_turn(engine: Engine, team: Team, order: TurnAssignment) -> None:
    """Cancel the remote task of a turn in whose place a coordinator appends a step, and wake one once it has ended."""
    task = engine.tasks.task_store.load(order.task_id, 1)
    if task is None or (task.position.seq, task.position.epoch) != (order.seq, order.epoch):
        return
    settle(engine, team, order.task_id, task.position, closes=False)
    records = records_of_turn(engine.workspace.files, order.task_id, order.seq)
    if records and not records[-1].runs:
        engine.services.dispatcher.advance(order.task_id)
