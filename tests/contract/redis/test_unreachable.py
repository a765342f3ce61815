"""A Redis that accepts no connection, or answers nothing: each call of a port raises a temporary error in time."""

from collections.abc import Callable

import pytest

from roboco.domain.history.part import failed_outcome
from roboco.domain.history.state import fold
from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.leases import TurnClaim
from roboco.ports.schedule import FillKind, FillPhase, FillPosition
from roboco.ports.snapshot import Decision, Phase
from roboco.ports.task_store import Commit
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK, USAGE, make_chain, status_event, text_chunk

TURN = Decision(Phase.TURN, TaskStatus.RUNNING, agent="writer")
STEPS = make_chain(1)
COMMIT = Commit(STEPS[0], fold(STEPS), [])
ASSIGNMENT, CALL = TurnAssignment(TASK, 1, 1, 1), ToolAssignment(TASK, 1, 1, "tc_1", 1)
CLAIM = TurnClaim(ASSIGNMENT, "me", None)  # type: ignore[arg-type]  # the snapshot is not used
FIRST = FillPosition(FillKind.REFILL, FillPhase.OPEN)


def uses_of(task: TaskOnRedis) -> list[Callable[[], object]]:
    """Return a call of each method."""
    store, leases, schedule = task.store, task.leases, task.schedule
    return [
        lambda: store.load(TASK, 1),
        lambda: store.create(TASK, STEPS, fold(STEPS), []),
        lambda: store.create_with_decision(TASK, STEPS, fold(STEPS), [], TURN, []),
        lambda: store.record_decision(TASK, 1, TURN, []),
        lambda: store.commit(TASK, 1, COMMIT),
        lambda: store.commit_with_decision(TASK, 1, COMMIT, TURN, []),
        lambda: store.reset_logs(TASK, 1, [status_event("again")]),
        lambda: store.end_epoch(TASK),
        lambda: store.expire(TASK, 1, "0"),
        lambda: leases.claim_turn(ASSIGNMENT, "me", 1),
        lambda: emit_chunk(leases, CLAIM, 1, text_chunk("c"), USAGE),
        lambda: leases.renew(CLAIM.lease),
        lambda: leases.restart_turn(TASK, 1, status_event("again")),
        lambda: leases.count_redelivery(TASK, 1, False),
        lambda: leases.claim_call(CALL, "me"),
        lambda: leases.record_outcome(CALL, "me", failed_outcome("tc_1", "late"), status_event("a")),
        lambda: leases.restart_call(CALL),
        lambda: leases.end_wait(CALL, ""),
        lambda: task.store.add_items(TASK, ["a"]),
        lambda: task.store.remove_item(TASK, "a"),
        lambda: list(task.logs.events(TASK, 0)),
        lambda: task.logs.publish_unlogged(TASK, status_event("a")),
        lambda: schedule.set("a"),
        schedule.count,
        lambda: schedule.remove("a"),
        lambda: schedule.enter(["a"]),
        lambda: schedule.claim(0, 1, 1),
        lambda: schedule.scan(0),
        schedule.is_intact,
        schedule.was_restarted,
        schedule.recently_filled,
        lambda: schedule.mark_filled(1),
        lambda: schedule.claim_fill("mark", FIRST, "me", 1),
        lambda: schedule.advance_fill("me", FIRST),
        lambda: schedule.finish_fill("me"),
    ]


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    for use in uses_of(unreachable_task):
        with pytest.raises(TransientError, match=r"redis does not answer.*ROBOCO_REDIS_URL"):
            use()
