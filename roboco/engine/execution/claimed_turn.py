"""claimed_turn: a turn that a worker has claimed, and the results of an attempt to run it."""

from dataclasses import dataclass

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

    @property
    def ticket(self) -> Ticket:
        """The place of the turn's request in the queue of its provider's rate limit."""
        return tickets.turn_ticket(self.team, self.claim.assignment.task_id, self.claim.snapshot)
