"""Recorded tasks of many shapes, made by running them in memory."""

from collections.abc import Callable
from typing import Any

from roboco.domain.decision.router import route
from roboco.domain.history.lineage import parent_of
from roboco.domain.ids import fork_item_id
from roboco.domain.inbox.item import UserMessage
from roboco.domain.limits import LimitOverrides
from roboco.domain.replay.replay import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.engine.intake.answer import resolve_unknown
from roboco.engine.intake.fork import ForkRequest, fork
from roboco.engine.intake.limits import set_limits
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.controlled import ASK, CONTROLLED, CUT_OFF, children_of
from tests.support.memory_ports.journeys import GRAPH, JOURNEYS, MANUAL, SEQUENTIAL, TOOLS, Journey, member, own_turns
from tests.support.memory_ports.model import Said, Script, said
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, given, team_of

FORK = "fork_1"


def past_of(world: World, task_id: str = TASK) -> RecordedTask:
    """What is recorded of the task."""
    steps, summary = world.history(task_id), world.summary(task_id)
    team, lineage = world.engine.frozen_teams.get(task_id), world.engine.frozen_teams.fork_of(task_id)
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


def travelled(journey: Journey) -> World:
    """The world of a journey, at its end."""
    return journey.run(journey.world())


def closed_by(act: Callable[[World], None]) -> World:
    """A world in which `act` is done between the results of two of a step's calls; the first word on it ends it."""
    worlds: list[World] = []

    def add(args: dict[str, Any], context: ToolContext) -> int:
        if args["a"] == 3:
            act(worlds[0])
            worlds[0].drain()
        return int(args["a"])

    def script(request: Request) -> Said:
        heard = any(message["content"] == "stop adding" for message in request.messages)
        return said("I stop") if heard else TOOLS.script(request)

    worlds.append(World(given(script, {"add": add})))
    worlds[0].submit(TOOLS.team)
    worlds[0].settle()
    return worlds[0]


def asked_a_person(happened: bool) -> World:
    """A world in which a person said whether a payment had its effect."""
    ran: list[int] = []

    def pay(args: dict[str, Any], context: ToolContext) -> str:
        ran.append(1)
        if len(ran) == 1:
            raise Crash
        return f"paid {args['to']}"

    tools = [{"name": "pay", "function": "shop.bank:pay", "on_unknown": "ask"}]
    calls = (("pay", {"to": 0}), ("pay", {"to": 1}))
    world = World(given(lambda request: said("done") if own_turns(request) else said("paying", *calls), {"pay": pay}))
    world.submit(team_of(agents=[member("clerk", tools=["pay"])], tools=tools))
    world.settle()
    [lost] = [call.id for call in world.history()[1].calls if call.args["to"] == 0]
    resolve_unknown(world.engine, TASK, lost, happened, "by hand" if happened else None, "word")
    world.settle()
    return world


def waiting_for(tool: str) -> World:
    """A world whose task waits for somebody's word on a call of this tool."""
    team = team_of(
        agents=[member("lead", tools=["pay"])],
        tools=[{"name": "pay", "function": "shop.sums:pay", "effect": "pure", "approval": "required"}],
    )
    world = World(given(lambda request: said("asking", (tool, {})), {"pay": lambda args, context: "paid"}))
    world.submit(team, client_tools=[ASK])
    world.settle()
    return world


def interrupted_while(tool: str) -> World:
    """A world in which the user interrupts such a wait, and then stops the task."""
    world = waiting_for(tool)
    world.given.model.script = lambda request: said("never mind")
    world.interrupt("leave it")
    world.settle()
    return world


def delegated() -> World:
    return travelled(CONTROLLED["delegating"])


def forked(source: World, **wished: Any) -> World:
    """The world with a fork of its task, which says "another way"."""
    message = UserMessage(item_id=fork_item_id(FORK), created_at=source.engine.now(), text="another way")
    fork(source.engine, ForkRequest(TASK, FORK, message=message, **wished))
    source.settle(FORK)
    return source


def limited(script: Script = lambda request: said("a word"), raised: int | None = None, **limits: Any) -> World:
    """A world whose task comes to one of these limits; if it pauses there, `raised` is its new `max_steps`."""
    team = team_of(
        agents=[member("first", tools=["add"]), member("second")],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        collaboration_model={"type": "sequential", "rounds": 3},
        limits=limits,
    )
    world = World(given(script, {"add": lambda args, context: 3}))
    world.submit(team)
    world.settle()
    if raised is not None:
        set_limits(world.engine, TASK, LimitOverrides(max_steps=raised), "raise1")
        world.settle()
    return world


OTHERS = team_of(agents=[member("second"), member("third")], collaboration_model={"type": "sequential", "rounds": 3})
PASTS: dict[str, Callable[[], RecordedTask]] = {
    **{
        name: lambda journey=journey: past_of(travelled(journey))  # type: ignore[misc]
        for name, journey in {**JOURNEYS, **CONTROLLED, **CUT_OFF}.items()
    },
    "calls closed by an interruption": lambda: past_of(closed_by(lambda world: world.interrupt("stop adding"))),
    "calls closed by a stop": lambda: past_of(closed_by(lambda world: world.stop())),
    "a payment that a person vouches for": lambda: past_of(asked_a_person(True)),
    "a payment that was lost": lambda: past_of(asked_a_person(False)),
    "an approval that nobody waited for": lambda: past_of(interrupted_while("pay")),
    "a client's call that nobody waited for": lambda: past_of(interrupted_while("client_ask")),
    "waiting for an approval": lambda: past_of(waiting_for("pay")),
    "waiting for the client": lambda: past_of(waiting_for("client_ask")),
    "a sub-task": lambda: past_of(world := delegated(), children_of(world)[0]),
    "a fork": lambda: past_of(forked(travelled(SEQUENTIAL), seq=2), FORK),
    "a fork of another team": lambda: past_of(forked(travelled(SEQUENTIAL), seq=2, team=OTHERS), FORK),
    "at a limit": lambda: past_of(limited(max_steps=3)),
    "at a limit of an agent": lambda: past_of(limited(agents={"second": {"max_steps": 1}})),
    "wrapped up at a limit": lambda: past_of(limited(max_steps=3, at_limit="wrap_up")),
    "paused at a limit": lambda: past_of(limited(max_steps=3, at_limit="pause")),
    "a limit that was raised": lambda: past_of(limited(max_steps=3, at_limit="pause", raised=50)),
    "a call that a limit refused": lambda: past_of(limited(_adds, max_calls=1)),
    "round in circles": lambda: past_of(limited(_adds_for_ever, max_repeats=2)),
    "waiting for the user": lambda: past_of(_waits()),
}
"""Recorded tasks by what is special about them."""


def _waits() -> World:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    assert world.status() is TaskStatus.USER_TURN
    return world


def _adds(request: Request) -> Said:
    return said("done") if own_turns(request) else said("", ("add", {"a": 1}), ("add", {"a": 2}))


def _adds_for_ever(request: Request) -> Said:
    return said("", ("add", {"a": 1}))


def graph_past() -> RecordedTask:
    """The writer and the critic, who took three drafts."""
    return past_of(travelled(GRAPH))
