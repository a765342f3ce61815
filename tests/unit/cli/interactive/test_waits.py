"""What a waiting task waits for, and what the user is told to do."""

import pytest

from roboco.cli.interactive.waits import Waits
from roboco.domain.history.part import ToolCall
from roboco.domain.history.tool_outcome import success
from roboco.domain.status import TaskStatus
from roboco.engine.intake.answer import answer, decide_approval
from tests.memory.world import TASK, World
from tests.unit.engine.intake.test_resolve import asking
from tests.unit.engine.test_listings import listing, shopping
from tests.unit.engine.test_outside_calls import TEAM, task

PAY, WIRE, ASK = ("pay", {"amount": 5}), ("wire", {"amount": 500}), ("client_ask", {"q": "how many?"})


def waits(world: World) -> tuple[Waits, tuple[ToolCall, ...]]:
    return Waits(world.engine, TEAM, TASK), world.history()[1].calls


def test_calls_that_need_approval() -> None:
    world = task(PAY, ("add", {"a": 1, "b": 2}), ("wire", {"amount": 5}), WIRE)
    waited, (pay, _, _, wire) = waits(world)
    assert waited.unapproved() == [pay, wire]
    assert waited.how_to_go_on(TaskStatus.APPROVAL, False) == (
        f"roboco approve t CALL, or roboco deny t CALL; calls: {pay.id} (pay), {wire.id} (wire)"
    ).replace(" t ", f" {TASK} ")
    assert waited.how_to_go_on(TaskStatus.APPROVAL, True) == f"run it again with --id {TASK} on a terminal"
    decide_approval(world.engine, TASK, pay.id, False, "", None)
    assert waited.unapproved() == [wire]
    told = waited.how_to_go_on(TaskStatus.APPROVAL, False)
    assert told == f"roboco approve {TASK} {wire.id}, or roboco deny {TASK} {wire.id}"
    decide_approval(world.engine, TASK, wire.id, True, "", None)
    assert waited.unapproved() == waited.unknown() == []


def test_calls_of_the_client() -> None:
    world = task(ASK, ASK)
    waited, (first, second) = waits(world)
    assert waited.unanswered() == [first, second]
    answer(world.engine, TASK, success(first, 7))
    assert waited.unanswered() == [second]
    told = f"roboco answer {TASK} {second.id} --result JSON"
    assert waited.how_to_go_on(TaskStatus.CLIENT_TOOL_TURN, False) == told


def test_calls_of_unknown_outcome() -> None:
    world = asking()
    pay, *_ = world.history()[1].calls
    waited = Waits(world.engine, world.engine.teams.get(TASK), TASK)
    assert waited.unknown() == [pay]
    assert waited.unapproved() == []
    told = f"roboco resolve {TASK} {pay.id} --happened, or --did-not-happen"
    assert waited.how_to_go_on(TaskStatus.APPROVAL, False) == told


def test_calls_of_a_changed_tool() -> None:
    world, _ = shopping(2, later=listing("Sell."))
    world.settle()
    waited = Waits(world.engine, world.engine.teams.get(TASK), TASK)
    assert waited.changes().keys() == {call.id for call in waited.unapproved()}
    assert f"roboco why {TASK} shows how a tool has changed" in waited.how_to_go_on(TaskStatus.APPROVAL, False)


@pytest.mark.parametrize(
    ("status", "alone", "told"),
    [
        (TaskStatus.PAUSED, False, f"roboco resume {TASK}"),
        (TaskStatus.USER_TURN, False, f"roboco send {TASK} MESSAGE"),
        (TaskStatus.USER_TURN, True, f"run it again with --id {TASK} on a terminal"),
    ],
)
def test_no_calls(status: TaskStatus, alone: bool, told: str) -> None:
    assert Waits(World(asking().given).engine, TEAM, TASK).how_to_go_on(status, alone) == told
