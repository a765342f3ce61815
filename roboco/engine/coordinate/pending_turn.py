"""pending_turn: check the recorded work of a task until workers have done it: turns here, calls in `PendingCalls`.

    recorded ─► message ─► claimed ─► done
       │           │          └─ the lease has expired: the attempt is void, and another one starts (bounded)
       └───────────┴─ no worker claims it: send the message again if it is gone (growing delays)

A message that still waits in its queue is not sent again, so a backlog does not multiply.
"""

from dataclasses import dataclass

from roboco.domain.history.step import priority_of
from roboco.domain.ids import step_id_at
from roboco.domain.stream.event import TurnRestarted
from roboco.domain.team.team import Team
from roboco.engine.coordinate import outage
from roboco.engine.coordinate.switched_off import check_delay, turn_work
from roboco.engine.engine import Engine, Policy, TaskStores, store_dead_letter
from roboco.engine.record import recover
from roboco.ports.snapshot import Snapshot
from roboco.ports.telemetry import ATTEMPT_RESTARTS, LEASE_EXPIRATIONS

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
    tasks.task_store.clear_cancellation(task_id, task.position.epoch)
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


RESTART_CHECK_DELAY = 1.0
"""Seconds until a restarted turn is checked: a worker that is suspended may have taken its message."""


def check_turn(engine: Engine, task_id: str, team: Team, task: Snapshot, by_sweeper: bool) -> Repeat | Rest | GiveUp:
    """Check the pending turn. The sweeper sends its message again if it was lost.

    If the lease of its worker has expired, start another attempt. If that was the last one, store a dead letter and
    return GiveUp.
    """
    if not task.attempt.claimed:
        return _check_unclaimed(engine, task_id, team, task, by_sweeper)
    if task.attempt.lease_left > 0:
        schedule_check_after_lease(engine.tasks, task_id, task.attempt.lease_left)
        return Rest()
    if wait_for_renewal(engine, task_id, by_sweeper):
        return Rest()
    if recover.catch_up(engine, task_id, task):  # the worker had stored the step
        return Repeat()
    if task.attempt.counted >= engine.policy.max_attempts:
        return _give_up(engine, task_id, task)
    reason = engine.process.redis_silence.lost_reason(engine.clock.now(), engine.policy.lease, "made")
    if restart_turn(engine, task_id, task, reason):
        engine.services.telemetry.record(LEASE_EXPIRATIONS, 1, "turn")
    return Rest()


def _give_up(engine: Engine, task_id: str, task: Snapshot) -> GiveUp:
    agent, lost = task.position.agent, task.attempt.counted
    reason = f"{agent}'s turn was lost {lost} times, with its worker or in the middle of its model's answer"
    store_dead_letter(engine, "turn", task_id, f"{agent}, step {task.position.seq}", reason, task.attempt.number)
    return GiveUp(reason)


def _check_unclaimed(engine: Engine, task_id: str, team: Team, task: Snapshot, by_sweeper: bool) -> Repeat | Rest:
    cleared = clear_stale_cancellation(engine.tasks, task_id, task)
    if outage.is_timeout_exceeded(team, task) and outage.pause_task(engine, task_id, task):
        return Repeat()
    if task.attempt.deferred_for is not None:
        _dispatch_deferred(engine, task_id, team, task, task.attempt.deferred_for)
    elif cleared or (by_sweeper and needs_redelivery(engine, task_id, task)):
        engine.services.dispatcher.turn(task.turn_order(task_id), task.position.agent)
    return Rest()


def _dispatch_deferred(engine: Engine, task_id: str, team: Team, task: Snapshot, seconds: float) -> None:
    """Dispatch the deferred turn if its delay is over; else schedule the next check for that time."""
    if seconds > 0:
        engine.tasks.schedule.set(task_id, seconds)
    elif engine.process.switches.blocking(turn_work(team, task_id, task.position.agent)):
        engine.tasks.schedule.set(task_id, check_delay(engine, task))
    else:
        outage.dispatch_deferred(engine, task_id, task)


def restart_turn(
    engine: Engine, task_id: str, task: Snapshot, reason: str, token: str = "", handed_over: bool = False
) -> bool:
    """Void the attempt and dispatch the next one. Return False, and change nothing, if another worker has done so.

    A worker that ends its own attempt passes its lease `token`; without one, the lease must have expired. An attempt
    that is `handed_over` does not count as a failed one.
    """
    attempt = task.attempt.number + 1
    event = TurnRestarted(
        task_id=task_id,
        timestamp=engine.now(),
        step_id=step_id_at(task_id, task.position.seq),
        attempt=attempt,
        reason=reason,
    )
    epoch = engine.tasks.leases.restart_turn(task_id, task.position.epoch, event, token, handed_over)
    if epoch is None:
        return False
    engine.services.telemetry.record(ATTEMPT_RESTARTS, 1, "turn")
    engine.tasks.schedule.set(task_id, min(RESTART_CHECK_DELAY, engine.policy.redelivery_delay))
    engine.services.dispatcher.turn(task.turn_order(task_id, epoch, attempt), task.position.agent)
    return True


def cancel_turn(engine: Engine, task_id: str, task: Snapshot) -> Repeat | Rest | Decide:
    """Cancel the pending turn, because an inbox item asks for it. Return Decide once its worker is out of the way.

    The worker closes the model's connection and commits the text so far. It has a grace period for that, which ends
    early if its lease expires.
    """
    if task.attempt.cancel_requested_for is None:  # the sender of the item died before it requested the cancellation
        engine.tasks.task_store.add_items(task_id, (), interrupt=True, epoch=task.position.epoch)
        return Repeat()
    if not task.attempt.claimed:
        return Decide()
    left = min(task.attempt.lease_left, engine.policy.interrupt_grace - task.attempt.cancel_requested_for)
    if left > 0:
        engine.tasks.schedule.set(task_id, left + EXPIRY_MARGIN)
        return Rest()
    return Repeat() if recover.catch_up(engine, task_id, task) else Decide()
