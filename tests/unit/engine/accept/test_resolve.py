"""A call with an unknown outcome waits for the user: one resolution counts, whatever else arrives."""

from typing import Any

import pytest

from roboco.domain.paths import inbox_path
from roboco.domain.status import TaskStatus
from roboco.engine.accept.answer import CallResolution, resolve_unknown
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def world_with_unknown_outcome(lost: int = 1) -> World:
    """Return a world whose task waits: the workers of `lost` of its two payments crashed, and a sum is done."""
    ran: list[str] = []

    def script(request: Any) -> Any:
        if own_turns(request):
            return says("done")
        return says("paying", ("pay", {"to": 0}), ("add", {}), ("pay", {"to": 1}))

    def pay(args: dict[str, Any], context: Any) -> str:
        ran.append(context.call_id)
        if len(ran) - ran.count("add") <= lost:
            raise Crash
        return f"paid {args['to']}"

    def add(args: dict[str, Any], context: Any) -> int:
        ran.append("add")
        return 3

    world = World(world_parts(script, {"pay": pay, "add": add}))
    tools = [
        {"name": "pay", "function": "shop.bank:pay", "on_unknown": "ask"},
        {"name": "add", "function": "shop.sums:add", "effect": "pure"},
    ]
    world.submit(team_of(agents=[member("clerk", tools=["pay", "add"])], tools=tools))
    world.settle()
    assert world.status() is TaskStatus.APPROVAL
    assert world.summary().status is TaskStatus.APPROVAL
    assert ran.count("add") == 1
    return world


def resolve(world: World, index: int = 0, happened: bool = True, result: Any = None, item_id: str = "word") -> None:
    """Resolve the call of this index."""
    resolve_unknown(world.engine, TASK, world.history()[1].calls[index].id, CallResolution(happened, result), item_id)


def results(world: World) -> list[Any]:
    """Return the results or errors of the calls after the task has ended."""
    assert world.summary().status is TaskStatus.COMPLETED
    assert not world.pending_item_ids()
    return [one.error if one.is_error else one.result for one in world.history()[2].results]


def test_a_resolution_becomes_the_result() -> None:
    world = world_with_unknown_outcome()
    resolve(world, result={"receipt": 7})
    world.settle()
    assert results(world) == [{"receipt": 7}, 3, "paid 1"]
    assert world.history()[2].metadata == {
        "resolved": {world.history()[1].calls[0].id: "word"},
        "tools": {"pay": {"calls": 2, "seconds": 0.0}, "add": {"calls": 1, "seconds": 0.0}},
    }


def test_the_first_resolution_counts_and_a_repeated_one_changes_nothing() -> None:
    world = world_with_unknown_outcome()
    resolve(world, result="first", item_id="one")
    world.clock.move(1)
    resolve(world, result="second", item_id="two")
    resolve(world, result="third", item_id="one")
    world.settle()
    resolve(world, result="again", item_id="one")
    world.settle()
    assert results(world)[0] == "first"


def test_a_resolution_of_a_call_with_a_known_outcome_is_refused() -> None:
    world = world_with_unknown_outcome()
    waiting = world.history()[1].calls[0].id
    for index in (1, 2):
        with pytest.raises(UsageError, match=f"has no unknown outcome to resolve; calls that have: {waiting}"):
            resolve(world, index)
    with pytest.raises(UsageError, match="no task 'another'"):
        resolve_unknown(world.engine, "another", waiting, CallResolution(True), "word")
    resolve(world)
    world.settle()
    with pytest.raises(UsageError, match="has ended"):
        resolve(world, item_id="late")
    assert not [path for path in world.files.held if path.startswith(inbox_path(TASK))]


def test_a_resolution_during_the_recovery_of_the_call_is_refused_temporarily() -> None:
    world = world_with_unknown_outcome()
    world.server.wipe()
    with pytest.raises(TransientError, match="resolve it again in a moment"):
        resolve(world, result="paid 0")
    world.settle()
    resolve(world, result="paid 0")
    world.settle()
    assert results(world)[0] == "paid 0"


def test_a_resolution_of_a_call_that_waits_for_an_approval_is_refused() -> None:
    world = World(world_parts(lambda request: says("", ("pay", {"to": 0})), {"pay": lambda args, context: "paid"}))
    tools = [{"name": "pay", "function": "shop.bank:pay", "approval": "required"}]
    world.submit(team_of(agents=[member("clerk", tools=["pay"])], tools=tools))
    world.settle()
    with pytest.raises(UsageError, match="has no unknown outcome to resolve; calls that have: none"):
        resolve(world)
