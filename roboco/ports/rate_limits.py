"""Rate limits of model providers, and the usage of tenants by day, shared by all workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.day_budget import DayBudget
from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.usage import DayUsage

MAX_RESUMED_TASKS = 100
"""The largest number of tasks that one reply of a model resumes."""

RESERVATION_SECONDS = 3600
"""Seconds after which a reservation of the budget of a day ends by itself: no request to a model takes longer."""


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

    def reserve_day(self, task_id: str, wanted: DayUsage, budget: DayBudget | None) -> DayUsage | None:
        """Reserve what the next reply of the task may use of its tenant's budget for the day.

        Return None if it is reserved: it fits, or no other task has reserved any. Else return what others have
        reserved. The reservation ends with the next count of the task, with its next reservation, with one without a
        `budget`, which reserves nothing, or after RESERVATION_SECONDS. Cost: O(log of the reservations).
        """

    def reserve_for_caller(self, task_id: str, by: str, steps: int, wanted: DayUsage) -> DayUsage | None:
        """Do the same for the limits that are noted for the caller `by`, which created the task, if there are any.

        Without tokens, reserve nothing. If the limit is used up, a task alone reserves nothing, either. `steps` is the
        number of steps of the task: a count after as many steps, which is late, does not end the reservation.
        """

    def note_limits(self, tenant: str, by: str, limits: DayBudget) -> None:
        """Keep the limits of a caller for these reservations, for two days. One of them is set."""

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the tenant, or of its caller `by`, on this day (YYYY-MM-DD). Cost: O(1)."""
