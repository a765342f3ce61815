"""claimed_turn: a turn that a worker has claimed, and the results of an attempt to run it."""

import logging
import time
from dataclasses import asdict, dataclass, field, replace

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.run.cancellation import Cancellation
from roboco.engine.run.remote_turn import RemoteTurn
from roboco.ports.leases import TurnClaim
from roboco.ports.model import ModelStream
from roboco.ports.rate_limits import Ticket
from roboco.ports.task_store import TurnProgress
from roboco.ports.telemetry import OperationSpan

_log = logging.getLogger(__name__)

LOGGED_SILENCE = 30.0
"""Seconds of silence of a model after which its worker logs that."""


class ProgressNote:
    """The record of how far a turn's model call has come. The heartbeat reads it in another thread."""

    def __init__(self) -> None:
        self._followed: tuple[str, ModelStream] | None = None  # the model's name, and its call
        self.kept = ""
        """Why the workspace does not take the whole answer, or ""."""
        self._logged = 0.0  # the time since when the model was silent, of the last warning

    def follow(self, profile: ModelProfile, stream: ModelStream) -> None:
        """Record the progress of this call from now on."""
        self._followed = (profile.model, stream)

    def note(self) -> str:
        """Return the record, or "" before the first call. Log a model that has been silent for long, once."""
        if self._followed is None:
            return ""
        name, stream = self._followed
        call = asdict(stream.progress)
        model = f"{name[:100]!r} at {call.pop('server')[:100]}"
        progress = TurnProgress(model, **call, kept=self.kept)
        silence = time.time() - progress.heard_at
        if silence >= LOGGED_SILENCE and not self.kept and progress.heard_at != self._logged:
            self._logged = progress.heard_at
            limit = f"the limit is {progress.limit:.0f} s"
            _log.warning("model %s has sent nothing for %.0f s; %s", model, silence, limit)
        return progress.to_json()


@dataclass(frozen=True)
class ClaimedTurn:
    """A turn that this worker has claimed."""

    engine: Engine
    team: Team
    claim: TurnClaim
    cancellation: Cancellation
    span: OperationSpan
    claimed_at: float
    """The time of the claim, in Unix seconds."""
    progress: ProgressNote = field(default_factory=ProgressNote)
    """The progress of the turn's model call, for the heartbeat."""
    messages: list[RemoteTurn] = field(default_factory=list)
    """The messages to remote agents of this attempt. A message that is in no record yet is known here."""

    @property
    def model(self) -> str:
        """The name of the agent's model."""
        return self.team.profile(self.team.agent(self.claim.snapshot.position.agent)).model

    def with_older_steps(self) -> "ClaimedTurn":
        """Return the turn with all steps that its team can need, also those that Redis has trimmed.

        Cost: nothing while Redis or this process has them, else as `HistoryTails.complete`.
        """
        claim = self.claim
        task = self.engine.workspace.tails.complete(claim.assignment.task_id, claim.snapshot, self.team.tail_length)
        return self if task is claim.snapshot else replace(self, claim=replace(claim, snapshot=task))

    @property
    def ticket(self) -> Ticket:
        """The place of the turn's request in the queue of its provider's rate limit."""
        return tickets.turn_ticket(self.team, self.claim.assignment.task_id, self.claim.snapshot)
