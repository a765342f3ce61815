"""claimed_turn: a turn that a worker has claimed, and the results of an attempt to run it."""

from dataclasses import dataclass, replace

from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.execution.cancellation import Cancellation
from roboco.engine.record import rate_tickets as tickets
from roboco.ports.leases import TurnClaim
from roboco.ports.rate_limits import Ticket
from roboco.ports.telemetry import OperationSpan


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

    @property
    def model(self) -> str:
        """The name of the agent's model."""
        return self.team.profile(self.team.agent(self.claim.snapshot.agent)).model

    def with_older_steps(self) -> "ClaimedTurn":
        """Return the turn with all steps that its team can need, also those that Redis has trimmed.

        Cost: nothing while Redis or this process has them, else as `HistoryTails.complete`.
        """
        claim = self.claim
        task = self.engine.tails.complete(claim.assignment.task_id, claim.snapshot, self.team.tail_length)
        return self if task is claim.snapshot else replace(self, claim=replace(claim, snapshot=task))

    @property
    def ticket(self) -> Ticket:
        """The place of the turn's request in the queue of its provider's rate limit."""
        return tickets.turn_ticket(self.team, self.claim.assignment.task_id, self.claim.snapshot)
