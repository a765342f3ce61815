"""making: a turn that a worker has claimed, and the ways in which an attempt at it ends."""

from dataclasses import dataclass
from enum import StrEnum

from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.execution.cancellation import Ending
from roboco.engine.record import rate_tickets as tickets
from roboco.ports import Doing, Ticket, TurnClaim


class TurnEnd(StrEnum):
    """How an attempt at a turn has ended, for displays such as Flower."""

    COMMITTED = "committed"
    RATE_LIMITED = "waits until its model's rate limit allows it"
    OUTAGE = "waits, because its model cannot be reached"
    DEFERRED = "waits for the tools of a server, or until another turn that lost its worker is done"
    BROKE_OFF = "the model's answer broke off in the middle: another attempt replaces it"
    LOST = "another attempt has replaced it"
    TAKEN = "another worker has claimed this attempt"
    REFUSED = "done before, or no longer wanted"


@dataclass(frozen=True)
class Making:
    """A turn that this worker has claimed. `began` is the time of the claim, in Unix seconds."""

    engine: Engine
    team: Team
    claim: TurnClaim
    ending: Ending
    doing: Doing
    began: float

    @property
    def model(self) -> str:
        """The name of the agent's model."""
        return self.team.profile(self.team.agent(self.claim.task.agent)).model

    @property
    def ticket(self) -> Ticket:
        """The place of the turn's request in the queue of its provider's rate limit."""
        return tickets.ticket_of(self.team, self.claim.order.task_id, self.claim.task)
