"""remote_turn: the message of a turn to a remote agent, which must not be sent twice, and the end of its task.

    begin ─► record N (create) ─► message ─► first event ─► its task (put) ─► events ─► its end (put) ─► step
       │ exists             1          2                3                 4                      5
       └──► its task is known: follow that    refused: record N + 1    neither: it is unknown whether it was sent

An intent as that of an irreversible tool call: of two attempts that overlap, one creates the record and sends. If the
worker dies at 1 to 3, the record names no task: the next attempt sends nothing, and the turn fails, because it is
unknown whether the agent acts. An agent may know a message by its id, but the protocol does not demand that, so a
message is not sent again to find out. At 4 the next attempt reads the same task, which goes on; at 5 it reads its end.

An end of the turn that is not the end of the task cancels the task before the step is appended:

    interrupted, stopped, failed, at a limit, another profile ─► settle ─► CancelTask ─► outcome (put) ─► step
    no worker has the turn ─► coordinator ─► message (CANCELS) ─► any agents worker ───┘       (no claim)

A cancellation may be repeated: the agent answers that the task has ended. If the worker dies before the step, a
coordinator that would append a step in its place sends a message to cancel, until the record has an end, or for a lease
and REMOTE_STOP_SECONDS (`remote_end.py`). A cancellation that fails, and a task that no worker could cancel, are in the
metadata of the step, `remote_task`.
"""

import json
import logging
import threading
from dataclasses import dataclass, field

from roboco.domain.canonical_json import sha256
from roboco.domain.ids import tenant_of
from roboco.domain.paths import WORKSPACE_FILE
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.record.remote_record import (
    MAX_REFUSALS,
    RemoteRecord,
    address_hash,
    close_turn,
    parse_record,
    record_path,
    records_of_turn,
    remote_profiles,
)
from roboco.errors import ModelError, TransientError
from roboco.ports.assignment import TurnAssignment
from roboco.ports.model import Reply, Request
from roboco.ports.task_store import TaskPosition
from roboco.ports.workspace import Files

_log = logging.getLogger(__name__)
NAME_TIMEOUT = 3.0
"""Seconds for which the end of a turn waits until the agent has named the task of a message on its way."""
_UNKNOWN = "it is unknown whether the remote agent has got the message: an attempt ended before its answer"


@dataclass
class RemoteTurn:
    """The task of a remote agent that answers a turn, as this attempt knows it."""

    files: Files
    task_id: str
    turn: TaskPosition
    address: str
    """The address of the agent. Another profile of the same turn may have another one."""
    cancels: bool = False
    """True to cancel the task in place of a message."""
    number: int = 0
    """The number of the record."""
    record: RemoteRecord = field(default_factory=RemoteRecord)
    message_id: str = ""
    """The id of the message. After an interruption the next turn has another position."""
    _sends: bool = False
    """True if this attempt sends the message."""
    _answered: threading.Event = field(default_factory=threading.Event)
    """Is set once the agent has named the task, or refused the message."""

    def begin(self) -> str | None:
        """Return the task that an earlier attempt has begun, or None if this one sends the message."""
        if self.cancels:
            return self.record.task
        while self.number < MAX_REFUSALS:
            record = self._record()
            if record is None:
                self._sends = True
                return None
            if record.task:
                if record.agent not in ("", address_hash(self.address)):
                    raise ModelError("remote_agent", "another remote agent has the message of this turn", False)
                self.record = record
                return record.task
            if record.closed >= self.turn.epoch:
                raise ModelError("remote_agent", "the turn has ended", False)
            if not record.is_void:
                raise ModelError("unknown_outcome", _UNKNOWN, False)
            self.number += 1
        raise ModelError("refused", f"the remote agent has refused the message {MAX_REFUSALS} times", False)

    def _record(self) -> RemoteRecord | None:
        """Return the record of this number, or None if this attempt has created it now."""
        path = record_path(self.task_id, self.turn.seq, self.number)
        try:
            if (data := self.files.get(path)) is None:
                self.message_id = self.message_id or self._message_id()
                if self.files.create(path, b"{}"):
                    return None
            return parse_record(data or self.files.get(path) or b"{}")
        except TransientError as error:
            raise ModelError("store", str(error), True) from error

    def _message_id(self) -> str:
        """Return an id that all attempts derive, and no other deployment: two may have tasks with the same id."""
        workspace = json.loads(self.files.get(WORKSPACE_FILE) or b"{}").get("id", "")
        return f"roboco-{sha256(f'{workspace}/{record_path(self.task_id, self.turn.seq, 0)}')[:32]}"

    def note(self, task_id: str) -> None:
        """Store the task."""
        self._put(RemoteRecord(task=task_id, agent=address_hash(self.address)))

    def note_refused(self) -> None:
        """Store that the message was not accepted."""
        self._put(RemoteRecord(refused=True))

    def note_end(self, state: str, error: str = "") -> None:
        """Store how the task has ended, or why it could not be cancelled."""
        self._put(self.record.model_copy(update={"end": state, "cancelled": self.cancels, "error": error}))

    def wait_answered(self) -> None:
        """Wait until the agent has named the task of a message that is on its way, at most NAME_TIMEOUT."""
        if self._sends:
            self._answered.wait(NAME_TIMEOUT)

    def _put(self, record: RemoteRecord) -> None:
        self.record = record
        self._answered.set()
        try:
            data = record.model_dump_json(exclude_defaults=True).encode()
            self.files.put(record_path(self.task_id, self.turn.seq, self.number), data)
        except TransientError as error:  # the turn goes on: only if its worker is lost too, the outcome is unknown
            path = record_path(self.task_id, self.turn.seq, self.number)
            _log.warning("%s is not stored: %s", path, error)


def settle(
    engine: Engine, team: Team, task_id: str, turn: TaskPosition, sent: RemoteTurn | None = None, closes: bool = True
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
    remote = RemoteTurn(files, task_id, turn, str(profile.base_url), cancels=True, number=number, record=record)
    remote.note_end(*_cancel(engine, task_id, profile, remote))
    return remote.record.metadata()


def _cancel(engine: Engine, task_id: str, profile: ModelProfile, remote: RemoteTurn) -> tuple[str, str]:
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
        _log.warning("remote task %r of step %d of task %s: %s", remote.record.task, remote.turn.seq, task_id, error)
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
