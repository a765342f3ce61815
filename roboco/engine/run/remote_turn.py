"""remote_turn: the message of a turn to a remote agent, which must not be sent twice. See `RemoteTask`.

    begin ─► record N (create) ─► message ─► first event ─► its task (put) ─► events ─► step
       │ exists
       └──► its task is known: follow that    refused: record N + 1    neither: it is unknown whether it was sent

An intent as that of an irreversible tool call: of two attempts that overlap, one creates the record and sends.
"""

import json
import logging
from dataclasses import dataclass

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.paths import intent_path
from roboco.engine.run.cancellation import Cancellation
from roboco.errors import ModelError, TransientError
from roboco.ports.assignment import TurnAssignment
from roboco.ports.workspace import Files

_log = logging.getLogger(__name__)
MAX_REFUSALS = 1000
"""The most times that the message of a turn is sent because it was refused before."""
_UNKNOWN = "it is unknown whether the remote agent has got the message: an attempt ended before its answer"


@dataclass
class RemoteTurn:
    """The task of a remote agent that answers a turn."""

    files: Files
    assignment: TurnAssignment
    cancellation: Cancellation
    address: str
    """The address of the agent. Another profile of the same turn may have another one."""
    _number: int = 0
    """The number of the record."""

    @property
    def message_id(self) -> str:
        """The id of the message. After an interruption the next turn has another position."""
        return f"roboco-{sha256(self._path(0))[:32]}"

    @property
    def cancelled(self) -> bool:
        """True if the turn was interrupted or stopped."""
        return self.cancellation.requested

    def begin(self) -> str | None:
        """Return the task that an earlier attempt has begun, or None if this one sends the message."""
        while self._number < MAX_REFUSALS:
            record = self._record()
            if record is None:
                return None
            if "task" in record:
                if record.get("agent", self._agent) != self._agent:
                    raise ModelError("remote_agent", "another remote agent has the message of this turn", False)
                return str(record["task"])
            if "refused" not in record:
                raise ModelError("unknown_outcome", _UNKNOWN, False)
            self._number += 1
        raise ModelError("refused", f"the remote agent has refused the message {MAX_REFUSALS} times", False)

    def _record(self) -> dict[str, object] | None:
        """Return the record of this number, or None if this attempt has created it now."""
        path = self._path(self._number)
        try:
            if (data := self.files.get(path)) is None and self.files.create(path, b"{}"):
                return None
            found: dict[str, object] = json.loads(data or self.files.get(path) or b"{}")
        except TransientError as error:
            raise ModelError("store", str(error), True) from error
        return found

    def note(self, task_id: str) -> None:
        """Store the task."""
        self._put({"task": task_id, "agent": self._agent})

    def note_refused(self) -> None:
        """Store that the message was not accepted."""
        self._put({"refused": True})

    def _put(self, record: dict[str, object]) -> None:
        try:
            self.files.put(self._path(self._number), canonical_json(record).encode())
        except TransientError as error:  # the turn goes on: only if its worker is lost too, the outcome is unknown
            _log.warning("%s is not stored: %s", self._path(self._number), error)

    @property
    def _agent(self) -> str:
        return sha256(self.address)[:32]

    def _path(self, number: int) -> str:
        order = self.assignment
        return intent_path(order.task_id, f"turn-{order.seq:08d}-{number}")
