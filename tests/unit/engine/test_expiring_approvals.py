"""Approvals that remind and expire: a call waits for a person for a limited time."""

from copy import deepcopy
from typing import Any

import pytest

from roboco.domain.history.part import ToolResult
from roboco.domain.status import TaskStatus
from roboco.domain.team.validation import validate_team
from roboco.errors import InvalidTeam, StateConflict
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole, member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.notifications import HOOK, URL
from tests.support.memory_ports.shop_world import PARSE
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

ASK = {"name": "client_ask", "description": "asks"}
HOUR = 3600.0


def world_with_calls(*calls: tuple[str, Any], **terms: Any) -> World:
    """Return a world whose agent has made these calls of a tool with these terms of approval."""
    tool = {"name": "pay", "function": "shop.sums:pay", "effect": "pure", "approval": "required"}
    look = {"name": "look", "function": "shop.sums:look", "effect": "pure"}
    tools = [tool | terms, look, PARSE | {"timeout": 24 * int(HOUR)}]
    team = team_of(agents=[member("lead", tools=["pay", "look", "parse"])], tools=tools)

    def script(request: Request) -> ScriptedReply:
        return says("", *calls) if own_turns(request) == 0 else says("done")

    functions = {"pay": lambda args, context: "paid", "look": lambda args, context: "seen"}
    world = World(world_parts(script, functions))
    world.submit(team, client_tools=[ASK], notify=[HOOK | {"on": ["approval", "completed", "cancelled", "failed"]}])
    world.settle()
    return world


def pass_time(world: World, seconds: float) -> None:
    """Let time pass, with a sweep at its end and the deliveries that follow."""
    world.clock.move(seconds)
    world.settle_for(3)


def results_of(world: World) -> list[ToolResult]:
    return list(world.history()[2].results)


def reason_of(world: World) -> str:
    return str(world.server.held.tasks[TASK].reason)


@pytest.mark.parametrize(("on_expiry", "status"), [("stop", TaskStatus.CANCELLED), ("fail", TaskStatus.FAILED)])
def test_a_call_beside_one_that_runs_is_announced_and_its_expiry_ends_the_task(
    on_expiry: str, status: TaskStatus
) -> None:
    world = world_with_calls(("pay", {}), ("parse", {"file": "a"}), expires="2h", on_expiry=on_expiry)
    assert world.summary().status is status
    asked, result = world.history()[1:3]
    assert (result.created_at - asked.created_at).total_seconds() == pytest.approx(2 * HOUR, abs=2.0)
    assert world.notifier.statuses(URL) == ["approval", status]
    [announced] = [event for event in world.events() if "a person must approve: pay" in event.get("reason", "")]
    assert (announced["status"], result.results[0].is_error) == ("running", True)
    assert_whole(world, "")


@pytest.mark.parametrize("wiped", [False, True])
def test_a_person_is_reminded_at_growing_intervals(wiped: bool) -> None:
    world = world_with_calls(("pay", {}), expires="5h", remind="1h")
    assert len(world.notifier.statuses(URL)) == 1
    for hours, reminders in ((1.0, 1), (0.5, 1), (0.5, 2), (1.5, 2), (0.5, 3)):
        if wiped:
            world.server.wipe()
        pass_time(world, hours * HOUR)
        assert world.notifier.statuses(URL) == ["approval"] * (1 + reminders)
        assert reason_of(world).endswith(f"; reminder {reminders}")
    pass_time(world, HOUR)
    assert world.notifier.statuses(URL) == ["approval"] * 4 + ["completed"]
    assert_whole(world, "")


def test_the_decision_of_a_person_counts_if_it_is_stored_first() -> None:
    world = world_with_calls(("pay", {}), expires="2h")
    world.clock.move(2 * HOUR)
    world.decide_approval(world.history()[1].calls[0].id, approved=True)
    world.settle()
    assert [result.result for result in results_of(world)] == ["paid"]


def test_a_decision_after_the_expiry_is_refused() -> None:
    world = world_with_calls(("pay", {}), ("pay", {}), expires="2h")
    first, second = world.history()[1].calls
    world.decide_approval(first.id, approved=True)
    world.settle()
    world.clock.move(2 * HOUR)
    world.sweep()
    with pytest.raises(StateConflict, match=r"expired at [-0-9]+ [:0-9]+ UTC, before a person decided"):
        world.decide_approval(second.id, approved=True)
    world.settle()
    assert [result.result for result in results_of(world)] == ["paid", None]


def test_redis_that_was_set_back_before_an_expiry_catches_up() -> None:
    world = world_with_calls(("pay", {}), expires="2h")
    before = deepcopy(world.server.held)
    pass_time(world, 2 * HOUR)
    world.server.held = before
    steps = world.history()
    world.engine.services.dispatcher.advance(TASK)
    world.drain(limit=10)
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.history() == steps


@pytest.mark.parametrize(
    ("terms", "mistake"),
    [
        ({"approval": "never", "expires": "2h"}, "expires: needs 'approval'"),
        ({"approval": "required", "on_expiry": "stop"}, "on_expiry: needs 'expires'"),
        ({"approval": "required", "expires": "soon"}, "expires"),
    ],
)
def test_mistaken_terms_are_refused(terms: dict[str, Any], mistake: str) -> None:
    team = {"name": "t", "agents": [{"name": "a", "prompt": "p", "model": {"model": "m"}, "tools": ["s_buy"]}]}
    for place in (
        {"tools": [{"name": "s_buy", "function": "shop:buy"} | terms]},
        {"mcp_servers": {"s": {"command": ["s"], "tools": {"buy": terms}}}},
    ):
        with pytest.raises(InvalidTeam) as refused:
            validate_team(team | place)
        assert any(mistake in one for one in refused.value.mistakes)


def test_a_tool_of_an_mcp_server_has_the_terms_of_its_team() -> None:
    tools = {"buy": {"approval": "required", "expires": "90m", "remind": "1d", "on_expiry": "stop"}}
    team = team_of(agents=[member("a", tools=["s_buy"])], mcp_servers={"s": {"command": ["s"], "tools": tools}})
    spec = team.tool("s_buy")
    assert spec is not None
    assert (spec.expires, spec.remind, spec.on_expiry) == (5400, 86_400, "stop")
