"""The explorer finds no violation in hundreds of random schedules, and finds bugs that a test injects."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace

import pytest

from roboco.client.operator import bulk
from roboco.client.session import SessionPoll, poll
from roboco.domain.decision.action import Action, Situation, Wait
from roboco.domain.decision.decide import decide
from roboco.domain.decision.router import Router, route
from roboco.domain.history.state import History
from roboco.domain.inbox.item import Stop
from roboco.domain.paths import RESTART_PREFIX
from roboco.domain.team.team import Team
from roboco.engine import day_budgets, notifications
from roboco.engine.accept import accept_item as receive
from roboco.engine.coordinate import advance, pending_turn
from roboco.engine.coordinate import next_step as following
from roboco.engine.engine import Engine
from roboco.engine.operate import erase, notification_delivery
from roboco.engine.operate.sweep import ONE_TIME_WORK
from roboco.engine.record import recover
from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.leases import Chunk, EmitCallback, TurnClaim
from tests.faults.explore import followers
from tests.faults.explore.case import LOSSES, Case, Disturbance
from tests.faults.explore.explore import shrink, violations
from tests.faults.explore.shapes import SHAPES
from tests.support.memory_ports.leases import MemoryLeases

SCHEDULES = 200
"""The script `.ci/run` runs others for a minute, with a seed from the date."""
MAX_SCHEDULES = 4000
"""Maximal number of schedules in which the explorer finds an injected bug."""


def broken_invariants(case: Case) -> set[str]:
    """Return the invariants that the case breaks."""
    return {violation.invariant for violation in violations(case)}


def test_random_schedules_break_no_invariant() -> None:
    random = Random(20)
    cases = [Case.random(random) for _ in range(SCHEDULES)]
    found = {str(case): unexpected for case in cases if (unexpected := broken_invariants(case))}
    assert not found, "\n".join(
        f'python -m tests.faults.explore --trace --case "{case}"  # {found[case]}' for case in found
    )


FIXED_CASES = (
    "tools 0:restart:0 w4:sweep:0 w0:restart:6 200:stop:2 0:release:3",
    "sequential 28:hold:4 2:send:6 w0:deliver:6 0:hold:3 w2:sweep:5 7:restart:0",
    "sequential 50:wipe:0 0:sweep:0 27:fail:0",
    "sequential w16:again:0 0:deliver:0 10:back:3 w0:pause:0 0:stop:0 0:deliver:0 0:hold:0 4:stop:0 w0:deliver:0 "
    "w9:back:6",
    "sequential 26:stop:0 5:hold:0 w7:hold:0 0:back:1 0:sweep:0",
    "sequential w6:back:0 0:sweep:0 70:stop:0 w0:back:1",
    *(f"conversation {gap}:hold:1 0:stop:0" for gap in (41, 48, 54)),
    "conversation w21:hold:1 w0:send:0",
    "delegating w18:send:0 0:pause:5 w6:die:0",
    "retried 58:retry:0 w9:send:0 0:die-late:0 0:wipe:0 0:erase:1",
    "delegating 21:stop:0 200:erase:1",
    "outside w8:bulk:0 18:hold:0 w0:stop:0",
    "rated 4:erase:0 w0:sweep:0 w0:back:0",
    "sequential 28:erase:1 23:sweep:5 0:again:0 16:sweep:0",
    "manual w5:release:0 w5:sweep:0 0:back:2 0:sweep:2 w1:wipe:0 1:deliver:0 w1:back:0 0:pause:0",
    "remote w5:sweep:0 0:hold:0 38:deliver:0 w0:send:5 10:wipe:0 0:sweep:0",
)
"""Cases that once broke an invariant: an end that Redis kept was undone, an end that it lost remained, a closed task
applied an item that was accepted while Redis had lost the end, a receiver got an earlier notification last, a repeated
item of an ended task was deleted although it had been accepted, passes over an erased task and deliveries of its
notifications failed, `task.json` kept a decision that Redis had lost and made differently again, or a late worker sent
a message to a remote agent after the next step."""


@pytest.mark.parametrize("line", FIXED_CASES)
def test_a_fixed_case_breaks_no_invariant(line: str) -> None:
    assert violations(Case.parse(line)) == []


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_schedule_without_disturbances_breaks_no_invariant(shape: str) -> None:
    assert violations(Case(shape, ())) == []


def test_a_line_replays_the_same_port_calls() -> None:
    case = Case.random(Random(5), ["tools"])
    lines: list[list[str]] = [[], []]
    for one in lines:
        violations(Case.parse(str(case)), lambda line, one=one: one.append(line.split(" task_store")[0][:30]))  # type: ignore[misc]
    assert Case.parse(str(case)) == case
    assert lines[0] == lines[1]
    assert len(lines[0]) > 50


def test_shrinking_keeps_the_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLeases, "emit", _emit_without_fence)
    case = Case.parse("limited 19:hold:1 0:sweep:3")
    more = replace(case, disturbances=(*case.disturbances, Disturbance(3, "copy"), Disturbance(0, "deaf", 4)))
    less = shrink(more, "live follower")
    assert "live follower" in broken_invariants(less)
    assert len(less.disturbances) <= len(case.disturbances)


def _emit_without_fence(leases: MemoryLeases, claim: TurnClaim, chunk: Chunk, heard: EmitCallback) -> None:
    with leases._server as held:
        if (task := held.tasks.get(claim.assignment.task_id)) is not None:
            leases._server.publish_chunk(claim.assignment.task_id, task, chunk.message)
    heard(LeaseStatus.HELD)


def _set_due(engine: Engine, task_id: str) -> None:
    engine.tasks.schedule.set(task_id)


def _wait_on(team: Team, history: History, situation: Situation, router: Router = route) -> Action:
    stops = tuple(item for item in situation.inbox if isinstance(item, Stop))
    action = decide(team, history, replace(situation, inbox=stops), router)
    return action if isinstance(action, Wait) else decide(team, history, situation, router)


def _deliver_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification_delivery, "_is_late", lambda *_: False)
    monkeypatch.setattr(notifications, "newest_finished", lambda *_: {})


def _read_deltas_late(engine: Engine, task_id: str, token: str) -> SessionPoll:
    """Return changes that leave out the last message."""
    found = poll(engine, task_id, token)
    messages = found.changes.messages_by_idx
    last = max(messages, default=None)
    kept = {index: message for index, message in messages.items() if index != last}
    return replace(found, changes=found.changes.model_copy(update={"messages_by_idx": kept}))


def _restart_stored_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = SimpleNamespace(**vars(recover) | {"catch_up": lambda *_: False})
    monkeypatch.setattr(advance, "recover", blind)
    monkeypatch.setattr(pending_turn, "recover", blind)


Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class InjectedBug:
    """A bug, and the search for it: seed and shapes with which it was short when they were chosen."""

    invariant: str
    put_in: Callable[[Patch], None]
    seed: int = 1
    shapes: tuple[str, ...] = tuple(SHAPES)
    without: tuple[str, ...] = LOSSES


BUGS = {
    "a turn emits without a fence": InjectedBug(
        "live follower", lambda patch: patch.setattr(MemoryLeases, "emit", _emit_without_fence), 28, ("limited",)
    ),
    "a restart of Redis starts no new generation": InjectedBug(
        "numbers are unique", lambda patch: patch.setitem(ONE_TIME_WORK, RESTART_PREFIX, _set_due), without=()
    ),
    "an item is accepted although the task has ended": InjectedBug(
        "accepted item", lambda patch: patch.setattr(receive, "_reject", lambda *_: None), 6
    ),
    "a waiting task applies no item but stops": InjectedBug(
        "items are applied", lambda patch: patch.setattr(following, "decide", _wait_on), 3
    ),
    "a late notification is delivered": InjectedBug("order of notifications", _deliver_late, 11, ("conversation",)),
    "a step is not counted for the budget": InjectedBug(
        "budget", lambda patch: patch.setattr(day_budgets, "count", lambda *_, **__: None), without=()
    ),
    "sub-tasks are not erased": InjectedBug(
        "nothing of an erased task remains",
        lambda patch: patch.setattr(erase, "_sub_tasks", lambda *_: ()),
        50,
        ("delegating",),
    ),
    "a turn is restarted although its step is stored": InjectedBug("finished turns", _restart_stored_turns, 6),
    "a repetition of a bulk control sends other items": InjectedBug(
        "bulk once", lambda patch: patch.setattr(bulk, "bulk_item_id", lambda *_: f"b_{uuid.uuid4().hex}"), 10
    ),
    "a delta lacks a message": InjectedBug(
        "session", lambda patch: patch.setattr(followers, "poll", _read_deltas_late)
    ),
}


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_the_explorer_finds_a_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = BUGS[bug]
    random = Random(wanted.seed)

    def is_found(case: Case) -> bool:
        with monkeypatch.context() as patch:
            wanted.put_in(patch)
            if wanted.invariant not in broken_invariants(case):
                return False
        return wanted.invariant not in broken_invariants(case)

    cases = (Case.random(random, wanted.shapes, without=wanted.without) for _ in range(MAX_SCHEDULES))
    assert any(map(is_found, cases))
