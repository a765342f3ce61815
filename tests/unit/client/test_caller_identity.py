"""`by`, the identity of a caller: where the history, the session, the story and the stream of a task show it."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from roboco.client.task import Task
from roboco.domain.recorded.explain import explain
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.lab.replay.replay import replay
from roboco.settings import Settings
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.world import TASK, World
from tests.unit.engine.test_external_calls import world_with_calls


def world_in_user_turn() -> World:
    return MANUAL.at_rest(by="key:run")


def control(world: World) -> Task:
    return Task(TASK, world.engine, cast(Any, None), Settings())


def events(world: World, kind: str) -> list[dict[str, Any]]:
    return [event for event in world.events() if event["type"] == kind]


def story(world: World) -> str:
    """Return the explanation of the last step."""
    [scene] = explain(recorded(world), str(len(world.history()) - 1))
    return "\n".join((*scene.before, *scene.events))


def recorded(world: World) -> RecordedTask:
    team, steps = world.engine.workspace.frozen_teams.get(TASK), tuple(world.history())
    return RecordedTask(team, steps, world.status(), "", started_at=steps[0].created_at)


def test_callers_of_an_interruption_and_a_stop_are_in_their_events() -> None:
    world = world_in_user_turn()
    control(world).set_limits(max_steps=50, by="carol")
    world.settle()
    control(world).interrupt("now", by="alice")
    world.settle()
    assert "the limits were raised (carol)" in story(world)
    control(world).stop("enough", by="bob")
    world.settle()
    assert [event.get("by") for event in events(world, "event_user_interrupt")] == ["alice", "bob"]
    assert world.history()[-1].metadata["by"] == "bob"
    assert "stopped (bob): enough" in story(world)


def test_callers_of_a_pause_a_step_and_a_resumption_are_in_the_events_of_the_status() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    task = control(world)
    task.pause(by="alice")
    world.settle()
    assert (world.status(), world.server.held.tasks[TASK].reason) == (TaskStatus.PAUSED, "paused by alice")
    task.step(by="bob")
    world.settle()
    assert world.server.held.tasks[TASK].reason == "paused by bob"
    task.resume(by="carol")
    world.settle()
    assert [(event["status"], event.get("by")) for event in events(world, "event_status")] == [
        ("paused", "alice"),
        ("running", "bob"),
        ("paused", "bob"),
        ("user_turn", "carol"),
    ]


@pytest.mark.parametrize("approved", [True, False])
def test_callers_of_answers_and_decisions_are_in_the_step_of_results(approved: bool) -> None:
    world = world_with_calls(("client_ask", {"q": 1}), ("pay", {"amount": 5}))
    asked, paid = world.history()[1].calls
    task = control(world)
    task.answer(asked.id, 1, by="client-7")
    decide: Callable[..., None] = task.approve if approved else task.deny
    decide(paid.id, by="alice")
    decide(paid.id, by="bob")  # the same decision again: the first caller counts
    world.settle()
    results = world.history()[2]
    assert results.metadata["resolved_by"] == {asked.id: "client-7"}
    assert results.metadata["approvals"][paid.id]["by"] == "alice"
    lines = story(world)
    assert f"a person (alice) {'approved' if approved else 'did not approve'} pay" in lines
    assert "the answer to client_ask came from outside (client-7)" in lines
    assert {step.comparison for step in replay(recorded(world)) if step.seq is not None} == {"same"}


def test_same_item_of_another_caller_is_the_same_item() -> None:
    world = world_in_user_turn()
    task = control(world)
    for by in ("alice", "bob", None):
        task.send("more", item_id="m1", by=by)
        task.pause("p1", by=by)
        task.resume("r1", by=by)
    world.settle()
    assert [step.metadata.get("by") for step in world.history()][2:] == ["alice", None]
    assert task.receipt("m1").by == "alice"
    world.submit(MANUAL.team, by="key:other")
    assert world.history()[0].metadata["by"] == "key:run"


@pytest.mark.parametrize("by", ["", "x" * 201, "two\nlines", "bell\a", 7])
def test_identity_that_is_no_short_printable_text_is_refused(by: Any) -> None:
    world = world_in_user_turn()
    with pytest.raises(UsageError, match="by: "):
        control(world).send("more", by=by)
    with pytest.raises(UsageError, match="by: "):
        control(world).pause(by=by)
    assert not world.pending_item_ids()
