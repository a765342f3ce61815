"""Rate limits of model providers, and the usage of tenants by day, shared by all workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.usage import DayUsage

MAX_RESUMED_TASKS = 100
"""The largest number of tasks that one reply of a model resumes."""


@dataclass(frozen=True)
class Ticket:
    """The place of one request in the queue of a rate limit."""

    task_id: str
    team: str
    request: str
    """The identity of the request within its task."""

    @property
    def name(self) -> str:
        """Return the name of the request, unique among all tasks."""
        return f"{self.task_id}/{self.request}"

    @property
    def tenant(self) -> str:
        """Return the tenant of the task, or ""."""
        return tenant_of(self.task_id)


@dataclass(frozen=True)
class Admitted:
    """The request may be made now, and is counted from now on."""

    tasks_waiting: bool = False
    """True if paused tasks wait for a reply of this model."""


@dataclass(frozen=True)
class Queued:
    """The request may not be made yet. Its ticket has a place in the queue."""

    seconds: float
    """The seconds after which to ask again."""


Admission = Admitted | Queued


class RateLimiter(Protocol):
    """Limits of requests and tokens a minute, for any sixty seconds as the provider measures them.

    The operator's limits apply to an address and model, for all teams and tenants together. The limits of a profile
    apply to its team in one tenant.
    """

    def reserve(self, profile: ModelProfile, ticket: Ticket, tokens: int) -> Admission:
        """Admit the request, or queue its ticket.

        A waiting ticket keeps its place as long as it asks again in time. Within a tenant, tickets are served in order
        of arrival; tenants share the operator's limits fairly. A ticket that may make its request and asks again is not
        counted twice. A request with more tokens than the limit waits until a minute has passed without a request.
        """

    def record_usage(self, profile: ModelProfile, ticket: Ticket, tokens: int, seconds_ago: float = 0.0) -> None:
        """Record the tokens of the ticket's request, which was made `seconds_ago` seconds ago.

        Without a record the reserved tokens count. Recording them twice has no effect.
        """

    def release(self, profile: ModelProfile, ticket: Ticket) -> None:
        """Remove a waiting ticket whose request will not be made, so that those behind it move up."""

    def add_waiting_task(self, profile: ModelProfile, task_id: str) -> None:
        """Record that the task is paused until this profile's model has answered a request with this key."""

    def waiting_tasks(self, profile: ModelProfile, tenant: str) -> list[str]:
        """Return tasks that await a reply of this model to a request with this key, longest wait first.

        There are at most MAX_RESUMED_TASKS.
        """

    def remove_waiting_tasks(self, profile: ModelProfile, tenant: str, task_ids: Sequence[str]) -> None:
        """Remove these tasks from those that await a reply."""

    def pause(self, profile: ModelProfile, tenant: str, seconds: float) -> None:
        """Pause all requests to this profile's server with its key for the tenant. A longer pause remains."""

    def count_day(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        """Replace the usage of the task on this day, unless a value after as many steps, or after more, is stored.

        It counts for the tenant of the task, and for the caller `by` that created the task, if there is one. An emptied
        server has lost the sums; the next count of each task restores its part.
        """

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the tenant, or of its caller `by`, on this day (YYYY-MM-DD). Cost: O(1)."""
