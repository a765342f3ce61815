"""pending: check the recorded work of a task, a turn or tool calls, until workers have done it.

    recorded ─► message ─► claimed ─► done
       │           │          └─ the lease has expired: the attempt is void, and another one starts (bounded)
       └───────────┴─ no worker claims it: send the message again if it is gone (growing delays)

A message that still waits in its queue is not sent again, so a backlog does not multiply. `check_turn` and
`PendingCalls` apply this to turns and to tool calls; this module holds the results of a check and the redelivery.
"""

from dataclasses import dataclass

from roboco.domain.history.step import priority_of
from roboco.engine.engine import Engine, Policy, TaskStores
from roboco.ports.task_store import Snapshot

CLOCK_SKEW = 2.0
"""Seconds by which the clocks of the machines may differ without a message being sent twice."""
EXPIRY_MARGIN = 0.05
"""Seconds between the expiry of a lease and the next check of the task."""


@dataclass(frozen=True)
class Repeat:
    """The task has changed, or may have changed: load it and check it again."""


@dataclass(frozen=True)
class Rest:
    """Nothing can be done now. A worker, an inbox item or the schedule causes the next pass."""


@dataclass(frozen=True)
class Decide:
    """No pending work keeps the task from its next step."""


@dataclass(frozen=True)
class GiveUp:
    """The pending turn has used up its attempts. The next step reports it."""

    reason: str


PendingWork = Repeat | Rest | Decide | GiveUp


def redelivery_delay(policy: Policy, redeliveries: int) -> float:
    """Return the seconds until the next check of work that was found unclaimed this number of times."""
    return min(policy.max_redelivery_delay, policy.redelivery_delay * 2.0 ** min(redeliveries, 30))


def needs_redelivery(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Return True if the message of the pending work has left its queue, so that the caller has to send it again.

    Count the redelivery, and schedule the next check. Queues are first in, first out: while an older message waits, so
    does the message of this task.
    """
    since = engine.services.dispatcher.oldest_waiting_since(task.position.phase, task_id, priority_of(task.steps.first))
    gone = since is None or since > task.position.dispatched_at + CLOCK_SKEW
    redeliveries = engine.tasks.leases.count_redelivery(task_id, task.position.epoch, gone)
    if redeliveries:
        engine.tasks.schedule.set(task_id, redelivery_delay(engine.policy, redeliveries))
    return gone and redeliveries > 0


def clear_stale_cancellation(tasks: TaskStores, task_id: str, task: Snapshot) -> bool:
    """Clear a cancellation request that no inbox item asks for any more. Return True if there was one.

    The item was applied before and arrived a second time. The caller dispatches the unclaimed work again.
    """
    if task.attempt.cancel_requested_for is None:
        return False
    tasks.inbox.clear_cancellation(task_id, task.position.epoch)
    return True


def wait_for_renewal(engine: Engine, task_id: str, by_sweeper: bool) -> bool:
    """Return True if an expired lease must not be voided yet, and schedule the next check of its task.

    Its worker may live, and renew the lease, because Redis did not answer. Only the process of the sweeper knows that.
    """
    left = engine.process.redis_silence.grace(engine.clock.now(), engine.policy.lease)
    if by_sweeper and not left:
        return False
    engine.tasks.schedule.set(task_id, left + EXPIRY_MARGIN if left else 0.0)
    return True


def schedule_check_after_lease(tasks: TaskStores, task_id: str, lease_left: float) -> None:
    """Schedule the next check for the moment after the lease expires."""
    tasks.schedule.set(task_id, max(lease_left, 0.0) + EXPIRY_MARGIN)
