"""The task of a remote agent that answers a turn, and the message that begins it, which must not be sent twice.

    begin ─► record N (create) ─► message ─► first event ─► its task (put) ─► events ─► its end (put) ─► step
       │ exists             1          2                3                 4                      5
       └──► its task is known: follow that    refused: record N + 1    neither: it is unknown whether it was sent

An intent as that of an irreversible tool call: of two attempts that overlap, one creates the record and sends. If the
worker dies at 1 to 3, the record names no task: the next attempt sends nothing, and the turn fails, because it is
unknown whether the agent acts. An agent may know a message by its id, but the protocol does not demand that, so a
message is not sent again to find out. At 4 the next attempt reads the same task, which goes on; at 5 it reads its end.

    {} ─────────► {task, agent} ─► {task, agent, end}
    │ refused           └─────────► {task, agent, cancelled, end or error}
    └─► {refused}, and a record with the next number for the next message
    {closed}: no message of a worker that has claimed the turn under this fence, or an earlier one

The records are files of the workspace, so that any worker finds the remote task, also after the loss of Redis or of its
worker. A worker creates one before it sends a message, and the process that ends a turn without a message creates one,
too. So a late worker sends nothing after the next step of the task.
"""

import json
import logging
import threading
from dataclasses import dataclass, field

from pydantic import ValidationError

from roboco.domain.canonical_json import sha256
from roboco.domain.history.step import REMOTE_TASK
from roboco.domain.paths import WORKSPACE_FILE, intent_path
from roboco.domain.schema import RecordModel
from roboco.errors import ModelError, TransientError
from roboco.ports.workspace import Files

_log = logging.getLogger(__name__)
MAX_REFUSALS = 1000
"""The most times that the message of a turn is sent because it was refused before."""
NAME_TIMEOUT = 3.0
"""Seconds for which the end of a turn waits until the agent has named the task of a message on its way."""
_UNKNOWN = "it is unknown whether the remote agent has got the message: an attempt ended before its answer"


class RemoteRecord(RecordModel):
    """A message to a remote agent. Without any field, it is unknown whether the agent has accepted it."""

    task: str = ""
    """The id of the remote task, or "" until the agent has named it."""
    agent: str = ""
    """The hash of the agent's address."""
    refused: bool = False
    """True if the message was certainly not accepted."""
    closed: int = 0
    """The fence of the process that has closed the turn to messages, or 0."""
    end: str = ""
    """The state in which the remote task has ended or asks, or ""."""
    cancelled: bool = False
    """True if a worker has asked the agent to cancel the task."""
    error: str = ""
    """Why that has failed, or ""."""

    @property
    def is_void(self) -> bool:
        """True if the agent has no message by this record: another one may follow."""
        return self.refused or bool(self.closed)

    @property
    def runs(self) -> bool:
        """True if the remote task may still run."""
        return bool(self.task) and not self.end

    def metadata(self) -> dict[str, object]:
        """Return the metadata of a turn's step about a remote task that did not end by itself; else {}."""
        if self.end and not self.cancelled:
            return {}
        state = self.end or ("running" if self.task else "unknown")
        about = {"id": self.task, "state": state.lower(), "error": self.error}
        return {REMOTE_TASK: {name: value for name, value in about.items() if value}}


def parse_record(data: bytes) -> RemoteRecord:
    """Return the record. One that cannot be read says no more than an empty one: the outcome is unknown."""
    try:
        return RemoteRecord.model_validate_json(data)
    except ValidationError as error:
        _log.warning("a record of a message to a remote agent cannot be read: %s", error.errors()[0]["msg"])
        return RemoteRecord()


def record_path(task_id: str, seq: int, number: int) -> str:
    """Return the path of a record of the turn at this position. Each message has another number."""
    return intent_path(task_id, f"turn-{seq:08d}-{number}")


def records_of_turn(files: Files, task_id: str, seq: int) -> list[RemoteRecord]:
    """Return the records of the turn at this position. The last one has the message that the agent may have.

    Cost: a read for each, and one if the agent has none.
    """
    records = list[RemoteRecord]()
    while len(records) < MAX_REFUSALS and (not records or records[-1].is_void):
        if (data := files.get(record_path(task_id, seq, len(records)))) is None:
            break
        records.append(parse_record(data))
    return records


def address_hash(address: object) -> str:
    """Return how records name the address of an agent."""
    return sha256(str(address))[:32]


@dataclass
class RemoteTask:
    """The task of a remote agent that answers a turn, as this attempt knows it. Its methods block."""

    files: Files
    task_id: str
    seq: int
    """The position of the turn."""
    epoch: int
    """The fence of the turn."""
    address: str
    """The address of the agent. Another profile of the same turn may have another one."""
    cancels: bool = False
    """True to cancel the task in place of a message."""
    number: int = 0
    """The number of the record."""
    record: RemoteRecord = field(default_factory=RemoteRecord)
    message_id: str = ""
    """The id of the message, the same in every attempt, once `begin` has returned None."""
    _sends: bool = False
    """True if this attempt sends the message."""
    _answered: threading.Event = field(default_factory=threading.Event)
    """Is set once the agent has named the task, or refused the message."""

    def begin(self) -> str | None:
        """Return the task that an earlier attempt has begun, or None if this one alone may send the message.

        Raise ModelError if it is unknown whether an earlier attempt has sent it.
        """
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
            if record.closed >= self.epoch:
                raise ModelError("remote_agent", "the turn has ended", False)
            if not record.is_void:
                raise ModelError("unknown_outcome", _UNKNOWN, False)
            self.number += 1
        raise ModelError("refused", f"the remote agent has refused the message {MAX_REFUSALS} times", False)

    def _record(self) -> RemoteRecord | None:
        """Return the record of this number, or None if this attempt has created it now."""
        path = record_path(self.task_id, self.seq, self.number)
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
        return f"roboco-{sha256(f'{workspace}/{record_path(self.task_id, self.seq, 0)}')[:32]}"

    def note(self, task_id: str) -> None:
        """Store the task that the message has begun."""
        self._put(RemoteRecord(task=task_id, agent=address_hash(self.address)))

    def note_refused(self) -> None:
        """Store that the message was certainly not accepted: another attempt may send it."""
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
            self.files.put(record_path(self.task_id, self.seq, self.number), data)
        except TransientError as error:  # the turn goes on: only if its worker is lost too, the outcome is unknown
            path = record_path(self.task_id, self.seq, self.number)
            _log.warning("%s is not stored: %s", path, error)
