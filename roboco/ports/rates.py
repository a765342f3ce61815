"""What providers allow a minute, kept by all workers together, and how tokens are counted."""

from dataclasses import dataclass
from typing import Protocol

from roboco.domain.ids import tenant_of
from roboco.domain.model_profile import ModelProfile
from roboco.domain.tokens import Tokens


@dataclass(frozen=True)
class Ticket:
    """The place of one request of a task of a team; `request` is its name among those of the task."""

    task_id: str
    team: str
    request: str

    @property
    def name(self) -> str:
        """By what name the request counts."""
        return f"{self.task_id}/{self.request}"

    @property
    def tenant(self) -> str:
        """Whose task it is; "" for one of no tenant."""
        return tenant_of(self.task_id)


class Rates(Protocol):
    """How many requests and tokens a minute may be asked for, in any sixty seconds as the provider sees them.

    The operator's limits are for an address and model, whoever asks. A profile's own slow only its team, of one tenant.
    """

    def reserve(self, profile: ModelProfile, ticket: Ticket, tokens: int) -> float:
        """Return after how many seconds to ask again: 0 if the request may be made now, and then it counts from now on.

        A ticket that waits keeps its place, for as long as it asks again in time. Within a tenant the order is that of
        arrival; across tenants the operator's limits are shared fairly. The same ticket again, once its request may be
        made, is the same request. A request that is larger than a minute's tokens waits until none was made for a
        minute.
        """

    def settle(self, profile: ModelProfile, ticket: Ticket, tokens: int, ago: float = 0.0) -> None:
        """The request of this ticket was made so many seconds ago, and has used so many tokens."""

    def release(self, profile: ModelProfile, ticket: Ticket) -> None:
        """Give up the place of a ticket that waits, since its request is not made any more: those behind it move up."""

    def pause(self, profile: ModelProfile, seconds: float) -> None:
        """Let nobody ask this profile's server with its key for so many seconds: it said so. A longer pause stands."""


class Tokenizers(Protocol):
    """How the tokens of models are counted."""

    def of(self, model: str) -> Tokens:
        """How this model's tokens are counted: by its tokenizer, if that is known, else as an estimate that says so."""
