"""A call whose outcome nobody knows waits for a person: one word counts, whatever comes beside it."""

from typing import Any

import pytest

from roboco.domain.paths import inbox_path
from roboco.domain.status import TaskStatus
from roboco.engine.intake.answer import resolve_unknown
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import said
from tests.support.memory_ports.watch import Crash, make_call
from tests.support.memory_ports.world import TASK, World, given, team_of


def asking(lost: int = 1) -> World:
    """A task that waits: `lost` of its two payments were begun by workers that died, a sum beside them is done."""
    ran: list[str] = []

    def script(request: Any) -> Any:
        if own_turns(request):
            return said("done")
        return said("paying", ("pay", {"to": 0}), ("add", {}), ("pay", {"to": 1}))

    def pay(args: dict[str, Any], context: Any) -> str:
        ran.append(context.call_id)
        if len(ran) - ran.count("add") <= lost:
            raise Crash
        return f"paid {args['to']}"

    def add(args: dict[str, Any], context: Any) -> int:
        ran.append("add")
        return 3

    world = World(given(script, {"pay": pay, "add": add}))
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


def say(world: World, index: int = 0, happened: bool = True, result: Any = None, item_id: str = "word") -> None:
    """Say what came of the call of this index."""
    resolve_unknown(world.engine, TASK, world.history()[1].calls[index].id, happened, result, item_id)


def results(world: World) -> list[Any]:
    """What the results say, when the task has ended."""
    assert world.summary().status is TaskStatus.COMPLETED
    assert not world.pending_item_ids()
    return [one.error if one.is_error else one.result for one in world.history()[2].results]


def test_the_word_becomes_the_result() -> None:
    world = asking()
    say(world, result={"receipt": 7})
    world.settle()
    assert results(world) == [{"receipt": 7}, 3, "paid 1"]
    assert world.history()[2].metadata == {
        "resolved": {world.history()[1].calls[0].id: "word"},
        "tools": {"pay": {"calls": 2, "seconds": 0.0}, "add": {"calls": 1, "seconds": 0.0}},
    }


@pytest.mark.parametrize(("happened", "told"), [(True, "the call had its effect"), (False, "lost before")])
def test_a_word_without_a_result(happened: bool, told: str) -> None:
    world = asking()
    say(world, happened=happened)
    world.settle()
    assert told in results(world)[0]
    assert world.history()[2].results[0].is_error is not happened


def test_followers_are_told_that_it_waits_and_then_the_result_once() -> None:
    world = asking()
    call_id = world.history()[1].calls[0].id
    kinds = [record["type"] for record in world.published()]
    assert kinds.count("event_tool_unknown") == 1
    status = next(record for record in world.published() if record.get("status") == "approval")
    assert f"pay ({call_id})" in status["reason"]
    assert kinds.count("event_tool_result") == 2
    say(world)
    world.settle()
    told = [record["tool_result"] for record in world.published() if record["type"] == "event_tool_result"]
    assert [one["tool_call_id"] for one in told].count(call_id) == 1


def test_several_calls_wait_for_a_word_each() -> None:
    world = asking(lost=2)
    say(world, 2, item_id="second")
    world.settle()
    assert world.status() is TaskStatus.APPROVAL
    say(world, 0, happened=False, item_id="first")
    world.settle()
    assert ["lost before" in str(one) for one in results(world)] == [True, False, False]


def test_the_first_word_counts_and_the_same_one_again_changes_nothing() -> None:
    world = asking()
    say(world, result="first", item_id="one")
    world.clock.move(1)
    say(world, result="second", item_id="two")
    say(world, result="third", item_id="one")
    world.settle()
    say(world, result="again", item_id="one")
    world.settle()
    assert results(world)[0] == "first"


def test_a_word_on_a_call_that_waits_for_nobody_is_refused() -> None:
    world = asking()
    waiting = world.history()[1].calls[0].id
    for index in (1, 2):
        with pytest.raises(UsageError, match=f"has no unknown outcome to resolve; calls that have: {waiting}"):
            say(world, index)
    with pytest.raises(UsageError, match="has no unknown outcome"):
        resolve_unknown(world.engine, "another", waiting, True, None, "word")
    say(world)
    world.settle()
    with pytest.raises(UsageError, match="calls that have: none"):
        say(world, item_id="late")
    assert not [path for path in world.files.held if path.startswith(inbox_path(TASK))]


def test_a_word_that_loses_against_another_one_is_put_away() -> None:
    world = asking(lost=2)
    for number in range(3):
        say(world, 0, item_id=f"word{number}")
    say(world, 2, item_id="other")
    world.settle()
    results(world)


def test_a_message_waits_until_the_word_is_there() -> None:
    world = asking()
    world.send("hurry")
    world.settle_for(3)
    assert world.status() is TaskStatus.APPROVAL
    say(world)
    world.settle()
    assert [step.agent_name for step in world.history()] == ["user", "clerk", "tool_executor", "user", "clerk"]


def test_a_stop_ends_the_wait() -> None:
    world = asking()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    unknown, added, paid = world.history()[2].results
    assert "outcome unknown" in str(unknown.error)
    assert (added.result, paid.result) == (3, "paid 1")


def test_a_word_that_comes_while_the_call_is_looked_into_again_is_not_refused_for_good() -> None:
    world = asking()
    world.server.wipe()
    with pytest.raises(TransientError, match="resolve it again in a moment"):
        say(world, result="paid 0")
    world.settle()
    say(world, result="paid 0")
    world.settle()
    assert results(world)[0] == "paid 0"


def test_redis_may_be_emptied_while_it_waits() -> None:
    world = asking()
    world.server.wipe()
    world.settle()
    assert world.status() is TaskStatus.APPROVAL
    say(world, result="paid 0")
    world.server.wipe()
    world.settle()
    assert results(world) == ["paid 0", 3, "paid 1"]


def test_a_process_that_died_after_it_had_stored_the_word_is_made_good_by_the_next_delivery() -> None:
    world = asking()

    def watch(name: str, call: Any) -> Any:
        if name == "inbox.add":
            raise Crash
        return call()

    world.watch = watch
    with pytest.raises(Crash):
        say(world, result="paid 0")
    world.watch = make_call
    say(world, result="another")
    world.settle()
    assert results(world)[0] == "paid 0"
