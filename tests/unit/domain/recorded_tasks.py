"""Recorded tasks of many shapes, made by running them in memory."""

from collections.abc import Callable
from typing import Any

from roboco.domain.decision.router import route
from roboco.domain.history.lineage import parent_of
from roboco.domain.ids import fork_item_id
from roboco.domain.inbox.item import UserMessage
from roboco.domain.limits import LimitOverrides
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.engine.accept.answer import CallResolution, resolve_unknown
from roboco.engine.accept.control import set_limits
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.controlled import ASK, CONTROLLED, CUT_OFF, children_of
from tests.support.memory_ports.journeys import GRAPH, JOURNEYS, MANUAL, SEQUENTIAL, TOOLS, Journey, member, own_turns
from tests.support.memory_ports.model import Script, ScriptedReply, says
from tests.support.memory_ports.shop_world import ShopWorld
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

FORK = "fork_1"


def recorded_task(world: World, task_id: str = TASK) -> RecordedTask:
    """Return the record of the task."""
    steps, summary = world.history(task_id), world.summary(task_id)
    team, lineage = (
        world.engine.workspace.frozen_teams.get(task_id),
        world.engine.workspace.frozen_teams.fork_of(task_id),
    )
    model = team.collaboration_model
    return RecordedTask(
        team=team,
        steps=tuple(steps),
        status=world.status(task_id),
        reason=summary.reason,
        started_at=steps[0].created_at if lineage is None else lineage.created_at,
        first=1 if lineage is None else lineage.seq + 1,
        sub_task=parent_of(task_id, steps[0]) is not None,
        router=world.given.toolbox.router(model.router) if isinstance(model, Custom) else route,
    )


def run_journey(journey: Journey) -> World:
    """Run a journey to its end, and return its world."""
    return journey.run(journey.world())


def run_with_closed_calls(act: Callable[[World], None]) -> World:
    """Run a task in which `act` happens between the results of two calls of a step. Return its world."""
    worlds: list[World] = []

    def add(args: dict[str, Any], context: ToolContext) -> int:
        if args["a"] == 3:
            act(worlds[0])
            worlds[0].drain()
        return int(args["a"])

    def script(request: Request) -> ScriptedReply:
        interrupted = any(message["content"] == "stop adding" for message in request.messages)
        return says("I stop") if interrupted else TOOLS.script(request)

    worlds.append(World(world_parts(script, {"add": add})))
    worlds[0].submit(TOOLS.team)
    worlds[0].settle()
    return worlds[0]


def run_with_unknown_outcome(happened: bool) -> World:
    """Run a task in which a user resolves whether a payment of unknown outcome happened. Return its world."""
    ran: list[int] = []

    def pay(args: dict[str, Any], context: ToolContext) -> str:
        ran.append(1)
        if len(ran) == 1:
            raise Crash
        return f"paid {args['to']}"

    tools = [{"name": "pay", "function": "shop.bank:pay", "on_unknown": "ask"}]
    calls = (("pay", {"to": 0}), ("pay", {"to": 1}))
    world = World(
        world_parts(lambda request: says("done") if own_turns(request) else says("paying", *calls), {"pay": pay})
    )
    world.submit(team_of(agents=[member("clerk", tools=["pay"])], tools=tools))
    world.settle()
    [lost] = [call.id for call in world.history()[1].calls if call.args["to"] == 0]
    resolve_unknown(world.engine, TASK, lost, CallResolution(happened, "by hand" if happened else None), "word")
    world.settle()
    return world


def run_until_waiting(tool: str) -> World:
    """Run a task until it waits for an approval or a client's result of a call of this tool. Return its world."""
    team = team_of(
        agents=[member("lead", tools=["pay"])],
        tools=[{"name": "pay", "function": "shop.sums:pay", "effect": "pure", "approval": "required"}],
    )
    world = World(world_parts(lambda request: says("asking", (tool, {})), {"pay": lambda args, context: "paid"}))
    world.submit(team, client_tools=[ASK])
    world.settle()
    return world


def interrupt_wait(tool: str) -> World:
    """Run a task until it waits on a call of this tool, and interrupt the wait. Return its world."""
    world = run_until_waiting(tool)
    world.given.model.script = lambda request: says("never mind")
    world.interrupt("leave it")
    world.settle()
    return world


def run_delegation() -> World:
    return run_journey(CONTROLLED["delegating"])


def fork_task(source: World, **options: Any) -> World:
    """Fork the task with the message "another way", run the fork, and return the world."""
    message = UserMessage(item_id=fork_item_id(FORK), created_at=source.engine.now(), text="another way")
    fork(source.engine, ForkRequest(TASK, FORK, message=message, **options))
    source.settle(FORK)
    return source


def run_to_limit(
    script: Script = lambda request: says("a word"), new_max_steps: int | None = None, **limits: Any
) -> World:
    """Run a task to one of these limits. If it pauses there, set its `max_steps` and go on. Return its world."""
    team = team_of(
        agents=[member("first", tools=["add"]), member("second")],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        collaboration_model={"type": "sequential", "rounds": 3},
        limits=limits,
    )
    world = World(world_parts(script, {"add": lambda args, context: 3}))
    world.submit(team)
    world.settle()
    if new_max_steps is not None:
        set_limits(world.engine, TASK, LimitOverrides(max_steps=new_max_steps), "raise1")
        world.settle()
    return world


OTHER_TEAM = team_of(
    agents=[member("second"), member("third")], collaboration_model={"type": "sequential", "rounds": 3}
)
RECORDED_TASKS: dict[str, Callable[[], RecordedTask]] = {
    **{
        name: lambda journey=journey: recorded_task(run_journey(journey))  # type: ignore[misc]
        for name, journey in {**JOURNEYS, **CONTROLLED, **CUT_OFF}.items()
    },
    "calls closed by an interruption": lambda: recorded_task(
        run_with_closed_calls(lambda world: world.interrupt("stop adding"))
    ),
    "calls closed by a stop": lambda: recorded_task(run_with_closed_calls(lambda world: world.stop())),
    "a shop's Celery task": lambda: recorded_task(ShopWorld().begin().run()),
    "a shop's Celery task that fails": lambda: recorded_task(ShopWorld(({"file": "a", "fails": True},)).begin().run()),
    "a shop's Celery task without an answer": lambda: recorded_task(ShopWorld().begin().run(works=False)),
    "a payment that a user confirmed": lambda: recorded_task(run_with_unknown_outcome(True)),
    "a payment that was lost": lambda: recorded_task(run_with_unknown_outcome(False)),
    "an approval after an interruption": lambda: recorded_task(interrupt_wait("pay")),
    "a client's call after an interruption": lambda: recorded_task(interrupt_wait("client_ask")),
    "waiting for an approval": lambda: recorded_task(run_until_waiting("pay")),
    "waiting for the client": lambda: recorded_task(run_until_waiting("client_ask")),
    "a sub-task": lambda: recorded_task(world := run_delegation(), children_of(world)[0]),
    "a fork": lambda: recorded_task(fork_task(run_journey(SEQUENTIAL), seq=2), FORK),
    "a fork of another team": lambda: recorded_task(fork_task(run_journey(SEQUENTIAL), seq=2, team=OTHER_TEAM), FORK),
    "at a limit": lambda: recorded_task(run_to_limit(max_steps=3)),
    "at a limit of an agent": lambda: recorded_task(run_to_limit(agents={"second": {"max_steps": 1}})),
    "wrapped up at a limit": lambda: recorded_task(run_to_limit(max_steps=3, at_limit="wrap_up")),
    "paused at a limit": lambda: recorded_task(run_to_limit(max_steps=3, at_limit="pause")),
    "a limit that was raised": lambda: recorded_task(run_to_limit(max_steps=3, at_limit="pause", new_max_steps=50)),
    "a call that a limit refused": lambda: recorded_task(run_to_limit(_call_add_twice, max_calls=1)),
    "repeated calls": lambda: recorded_task(run_to_limit(_call_add_repeatedly, max_repeats=2)),
    "waiting for the user": lambda: recorded_task(_run_until_user_turn()),
}
"""Functions that return recorded tasks, by the feature of the task."""


def _run_until_user_turn() -> World:
    world = MANUAL.at_rest()
    assert world.status() is TaskStatus.USER_TURN
    return world


def _call_add_twice(request: Request) -> ScriptedReply:
    return says("done") if own_turns(request) else says("", ("add", {"a": 1}), ("add", {"a": 2}))


def _call_add_repeatedly(request: Request) -> ScriptedReply:
    return says("", ("add", {"a": 1}))


def graph_task() -> RecordedTask:
    """Return the recorded task of the writer and the critic, with three drafts."""
    return recorded_task(run_journey(GRAPH))
