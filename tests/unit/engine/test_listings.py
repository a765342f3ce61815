"""Listings: an agents worker contacts no MCP server, and a changed tool runs only after the user's approval."""

from typing import Any

import pytest

from roboco.domain.decision.tool_answers import spec_of
from roboco.domain.status import TaskStatus
from roboco.domain.team.tool_listing import ListedTool, Listing
from roboco.domain.team.tool_spec import ServerTool
from roboco.engine.accept.answer import CallResolution, open_tool_changes, resolve_unknown
from roboco.engine.record.tool_listings import changed_tool_refusal, stored_listing
from roboco.errors import UsageError
from tests.support.memory_ports.dispatcher import ListToolsMessage
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

BUY = "shop_buy"


def listing(description: str = "Buy an article.", effect: Any = "irreversible", **schema: Any) -> Listing:
    """Return a listing of the shop's only tool."""
    tool = ListedTool(description=description, input_schema={"type": "object", **schema}, effect=effect)
    return Listing(tools={"buy": tool})


def run_shop_task(
    calls: int = 1, later: Listing | None = None, at_first: Listing | None = None
) -> tuple[World, list[dict[str, Any]]]:
    """Return a world whose agent buys this number of times, one turn each, and the list of the arguments of the runs.

    If `at_first` is given, the server lists it instead of the shop; from the first turn on, it lists `later`, if given.
    """
    runs: list[dict[str, Any]] = []

    def buy(args: dict[str, Any], context: Any) -> str:
        runs.append(args)
        return "bought"

    def script(request: Any) -> Any:
        made = own_turns(request)
        if later is not None:
            world.given.toolbox.servers["shop"] = later
        return says("done") if made >= calls else says("buying", (BUY, {"number": made}))

    world = World(world_parts(script, {BUY: buy}))
    world.given.toolbox.servers["shop"] = at_first or listing()
    shop = {"command": ["shop"], "tools": ["buy"]}
    world.submit(team_of(agents=[member("clerk", tools=["mcp:shop"])], mcp_servers={"shop": shop}))
    return world, runs


def errors(world: World) -> list[str]:
    """Return the errors among the results of the history."""
    return [result.error or "" for step in world.history() for result in step.results if result.is_error]


def test_turn_without_listing_requests_it_and_waits() -> None:
    world, runs = run_shop_task()
    while not any(isinstance(letter, ListToolsMessage) for letter in world.dispatcher.queue):
        world.deliver(world.dispatcher.queue.popleft())
    assert "waits until a tools worker has listed the tools of MCP server 'shop'" in str(world.events()[-1])
    assert not world.given.toolbox.described
    world.settle()
    assert runs == [{"number": 0}]
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.given.toolbox.described[0] == {"shop": listing()}


def test_unreachable_server_is_contacted_a_limited_number_of_times() -> None:
    world, runs = run_shop_task()
    world.given.toolbox.servers.clear()
    world.settle()
    assert (
        sum(isinstance(letter, ListToolsMessage) for letter in world.dispatcher.sent)
        == world.engine.policy.max_attempts
    )
    assert runs == []
    assert errors(world) == ["MCP server 'shop' could not be reached"]
    assert world.given.toolbox.described[0]["shop"].error == "MCP server 'shop' could not be reached"
    assert world.summary().status is TaskStatus.COMPLETED


def test_server_that_is_not_allowed_ends_the_task() -> None:
    world = World(world_parts(lambda request: says("done")))
    evil = {"command": ["sh"], "tools": ["x"]}
    world.submit(team_of(agents=[member("clerk", tools=["mcp:evil"])], mcp_servers={"evil": evil}))
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    error = world.history()[-1].error
    assert error is not None
    assert "MCP server 'evil' is not allowed on this worker" in error.message


@pytest.mark.parametrize(
    "change", [{"description": "Sell."}, {"required": ["iban"]}, {"effect": "pure"}], ids=["text", "schema", "effect"]
)
def test_changed_tool_does_not_run_until_a_person_approves(change: dict[str, Any]) -> None:
    world, runs = run_shop_task(2, later=listing(**change))
    world.settle()
    assert world.status() is TaskStatus.APPROVAL
    assert "the tool has changed since the task began" in str(world.events()[-1])
    assert runs == []
    call = world.history()[1].calls[0]
    with pytest.raises(UsageError, match="approve or deny it"):
        resolve_unknown(world.engine, TASK, call.id, CallResolution(True), "word")
    with pytest.raises(UsageError, match="approve it without arguments"):
        world.decide_approval(call.id, True, args={"number": 7})
    world.decide_approval(call.id, True)
    world.decide_approval(call.id, True)
    world.settle()
    assert runs == [{"number": 1}], "the call itself was made for the unchanged tool"
    assert world.given.toolbox.described[-1] == {"shop": listing(**change)}
    assert world.summary().status is TaskStatus.COMPLETED


def test_shown_change_is_the_approved_change() -> None:
    world, runs = run_shop_task(2, later=listing("Sell.", effect="pure"))
    world.settle()
    call_id = world.history()[1].calls[0].id
    shown = [
        {"part": "description", "before": '"Buy an article."', "after": '"Sell."'},
        {"part": "effect", "before": '"irreversible"', "after": '"pure"'},
    ]
    (change,) = world.events()[-1]["changes"]
    assert change == {"call_id": call_id, "server": "shop", "tool": "buy", "parts": shown}
    assert [one.model_dump() for one in open_tool_changes(world.engine, TASK)] == [change | {"parts": tuple(shown)}]
    world.given.toolbox.servers["shop"] = listing("Sell all.")
    team = world.engine.workspace.frozen_teams.get(TASK)
    call = world.history()[1].calls[0]
    spec = spec_of(team, world.history()[1], call)
    assert isinstance(spec, ServerTool)
    assert (
        changed_tool_refusal(world.engine, team, TASK, call, spec) is not None
    )  # a redelivered call meets another change
    assert [one.parts[0].after for one in open_tool_changes(world.engine, TASK)] == ['"Sell."']
    world.decide_approval(call_id, True)
    assert open_tool_changes(world.engine, TASK) == []
    assert runs == []


def test_call_of_a_removed_tool_is_an_error() -> None:
    world, runs = run_shop_task(later=Listing())
    world.settle()
    assert errors(world) == ["not run: MCP server 'shop' has no tool 'buy' any more"]
    assert runs == []


FIND = ListedTool(description="Find.", input_schema={"type": "object"}, effect="pure")
BOTH = Listing(tools={"buy": listing().tools["buy"], "find": FIND})


def open_shop(script: Any, at_first: Listing | None, tools: tuple[str, ...] = ("mcp:shop",)) -> tuple[World, list[str]]:
    """Return a world whose agent may use all tools of the shop, and the list of the names of the tools that ran."""
    runs: list[str] = []
    named = {name: lambda args, context, name=name: runs.append(name) for name in (BUY, "shop_find", "shop_new")}
    world = World(world_parts(script, named))
    if at_first is not None:
        world.given.toolbox.servers["shop"] = at_first
    world.submit(team_of(agents=[member("clerk", tools=list(tools))], mcp_servers={"shop": {"command": ["shop"]}}))
    return world, runs


def offered_to(world: World) -> list[list[str]]:
    """Return the names of the tools in each request to the model."""
    return [[tool["function"]["name"] for tool in request.tools] for request in world.given.model.requests]


def test_all_tools_of_a_server_are_those_of_its_first_listing() -> None:
    def script(request: Any) -> Any:
        world.given.toolbox.servers["shop"] = Listing(tools=BOTH.tools | {"new": FIND})
        made = own_turns(request)
        return says("done") if made == 2 else says("", ("shop_find", {}), ("shop_new", {}), ("mcp:shop", {}))

    world, runs = open_shop(script, BOTH)
    world.settle()
    assert offered_to(world) == [[BUY, "shop_find"]] * 3
    assert runs == ["shop_find"] * 2
    assert world.summary().status is TaskStatus.COMPLETED
    assert errors(world)[0] == "MCP server 'shop' has no tool 'shop_new'; you may call: 'shop_buy', 'shop_find'"
    assert errors(world)[1] == "tool 'mcp:shop' is not on your list; you may call: shop_..."
    assert world.history()[1].metadata["effects"]["shop_find"] == "pure"


def test_unreachable_server_with_all_of_its_tools_can_be_listed_by_a_call() -> None:
    def script(request: Any) -> Any:
        made = own_turns(request)
        world.given.toolbox.servers["shop"] = BOTH
        return says("done") if made == 2 else says("", ("shop_list_tools" if made == 0 else "shop_find", {}))

    world, runs = open_shop(script, None)
    world.settle()
    assert offered_to(world) == [["shop_list_tools"], [BUY, "shop_find"], [BUY, "shop_find"]]
    assert errors(world) == [
        "not run: the tools of MCP server 'shop' were not known; they are now, "
        "so call the tool again if its result is still needed"
    ]
    assert runs == ["shop_find"]


def test_unknown_tool_name_ends_the_task_with_the_mistake() -> None:
    world, _runs = open_shop(lambda request: says("done"), Listing(tools=BOTH.tools, missing="no tool 'serch'"))
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    error = world.history()[-1].error
    assert error is not None
    assert (error.code, error.message) == ("team", "clerk: no tool 'serch'")
    assert sum(isinstance(letter, ListToolsMessage) for letter in world.dispatcher.sent) == 1
    assert stored_listing(world.engine.workspace, TASK, "shop") is None


def test_mistake_that_is_found_by_a_call_is_its_error() -> None:
    def script(request: Any) -> Any:
        world.given.toolbox.servers["shop"] = Listing(tools=BOTH.tools, missing="no tool 'serch'")
        return says("done") if own_turns(request) else says("", ("shop_find", {}))

    world, runs = open_shop(script, None)
    world.settle()
    assert (errors(world), runs) == (["not run: no tool 'serch'"], [])
