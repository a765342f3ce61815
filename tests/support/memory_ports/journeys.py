"""Journeys: complete runs of teams with a history that no fault and no repetition changes."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from roboco.domain.decision.action import Route
from roboco.domain.decision.router import Router
from roboco.domain.history.part import successful_outcome
from roboco.domain.history.state import History
from roboco.domain.history.step import TaskStep, verify_chain
from roboco.domain.team.collaboration import END
from roboco.domain.team.team import Team
from roboco.errors import ModelError, TransientError
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from roboco.tools.function_answer import AgentAnswer
from tests.support.memory_ports.model import Script, ScriptedReply, says
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.toolbox import Function
from tests.support.memory_ports.watch import Watch, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

Act = Callable[[World], None]


@dataclass(frozen=True)
class Journey:
    """A team, the scripts of its model and tools, and the user's action each time that the task waits.

    `options` are those of the submission. A `live` script also receives the world, to act during a turn.
    """

    team: Team
    script: Script = lambda request: says("")
    functions: Mapping[str, Function] = field(default_factory=dict)
    acts: tuple[Act, ...] = ()
    routers: Mapping[str, Router] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    live: Callable[[Request, World], ScriptedReply] | None = None

    def world(self, watch: Watch = make_call) -> World:
        """Return a new world for this journey."""
        live = self.live
        worlds: list[World] = []
        script = self.script if live is None else lambda request: live(request, worlds[0])
        worlds.append(World(world_parts(script, self.functions, self.routers), watch))
        return worlds[0]

    def at_rest(self, **options: Any) -> World:
        """Return a world in which the team was submitted, and has worked until it waits or has ended."""
        world = self.world()
        world.submit(self.team, **options)
        world.settle()
        return world

    def run(self, world: World, submitted: bool = False) -> World:
        """Run the journey to its end."""
        if not submitted:
            world.submit(self.team, at_once=True, **self.options)
        world.settle()
        for act in self.acts:
            act(world)
            world.settle()
        return world


def speaker(request: Request) -> str:
    """Return the agent of the request, whose prompt is "You are NAME."."""
    return str(request.messages[0]["content"]).removeprefix("You are ").rstrip(".")


def own_turns(request: Request) -> int:
    """Return the number of assistant messages in the request."""
    return sum(1 for message in request.messages if message["role"] == "assistant")


def member(name: str, **fields: Any) -> dict[str, Any]:
    """Return an agent of a journey's team."""
    return {"name": name, "prompt": "You are {{ agent.name }}."} | fields


def comparable_step(step: TaskStep) -> dict[str, Any]:
    """Return the step without the fields that may differ between two runs of a journey."""
    record = step.model_dump(mode="json", exclude={"created_at", "prev_digest", "digest"})
    for part in record["parts"]:
        part.get("tool_result", {}).pop("runtime_ms", None)
    differ = {"timings", "attempt", "unfinished_usage"}
    if (step.metadata.get("context") or {}).get("strategy") == "summary":
        differ.add("usage")  # the turn that made a summary may be lost
    if "delegate" in (step.metadata.get("tools") or {}):
        differ.add("usage")  # interrupted replies of sub-tasks count
    record["metadata"] = {key: value for key, value in step.metadata.items() if key not in differ}
    if tools := step.metadata.get("tools"):
        record["metadata"]["tools"] = {name: used["calls"] for name, used in tools.items()}
    return record


def _graph_script(request: Request) -> ScriptedReply:
    turn = own_turns(request) + 1
    if speaker(request) == "writer":
        return says(f"draft number {turn}")
    return says("APPROVED at last" if turn == 3 else f"not yet {turn}")


GRAPH = Journey(
    team_of(
        agents=[member("writer"), member("critic")],
        collaboration_model={
            "type": "graph",
            "routing_graph": {
                "writer": ["critic"],
                "critic": [{"to": "END", "when": {"contains": "APPROVED"}}, {"to": "writer", "max_times": 3}],
            },
        },
    ),
    _graph_script,
)

SEQUENTIAL = Journey(
    team_of(agents=[member("first"), member("second")], collaboration_model={"type": "sequential", "rounds": 2}),
    lambda request: says(f"{speaker(request)} says {own_turns(request)}"),
)

MANUAL = Journey(
    team_of(agents=[member("helper"), member("expert")], collaboration_model={"type": "manual"}),
    lambda request: says(f"{speaker(request)} answers {request.messages[-1]['content']}"),
    acts=(
        lambda world: world.send("more", "item1"),
        lambda world: world.send("and you", "item2", agent="expert"),
        lambda world: world.stop("stop1"),
    ),
)


def _tools_script(request: Request) -> ScriptedReply:
    if speaker(request) == "closer":
        return says("closed")
    match own_turns(request):
        case 0:
            return says(
                "adding", ("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}), ("nothing", {}), ("add", "{no json")
            )
        case _:
            return says(
                "",
                ("add", {"a": 5, "b": 6}),
                ("handoff", {"destination_agent": "nobody", "reason": "?"}),
                ("handoff", {"destination_agent": "closer", "reason": "done"}),
            )


TOOLS = Journey(
    team_of(
        agents=[member("lead", tools=["add"], handoffs=["closer"]), member("closer")],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        collaboration_model={"type": "graph", "routing_graph": {"lead": ["USER"], "closer": ["END"]}},
    ),
    _tools_script,
    {"add": lambda args, context: args["a"] + args["b"]},
)


def _by_turns(team: Team, history: History) -> Route:
    """Route to each agent once, the last agent first."""
    names = [agent.name for agent in team.agents if agent.name not in history.state.turns]
    return Route(names[-1] if names else END, "custom", "by turns", f"{len(names)} to go")


CUSTOM = Journey(
    team_of(
        agents=[member("first"), member("second"), member("third")],
        collaboration_model={"type": "custom", "router": "shop.routers:by_turns"},
    ),
    lambda request: says(f"{speaker(request)} says {own_turns(request)}"),
    routers={"shop.routers:by_turns": _by_turns},
)


def _failing_script(request: Request) -> ScriptedReply:
    if speaker(request) == "second":
        return ScriptedReply(("the", " half"), error=ModelError("model", "the model refuses", retryable=False))
    return says("all is well")


FAILING = Journey(
    team_of(agents=[member("first"), member("second")], collaboration_model={"type": "sequential"}), _failing_script
)

PLAN = {
    "type": "object",
    "properties": {"searches": {"type": "array", "items": {"type": "string"}}, "need_more": {"type": "boolean"}},
    "required": ["searches", "need_more"],
}


def _typed_script(request: Request) -> ScriptedReply:
    """Plan wrongly, then rightly, search what was planned, and plan nothing more."""
    system = str(request.messages[0]["content"])
    if system.startswith("Search"):
        return says(f"found {system.removeprefix('Search ')}")
    plans = ("no plan yet", '{"searches": ["tides"], "need_more": true}', '{"searches": [], "need_more": false}')
    return says(plans[own_turns(request)])


TYPED = Journey(
    team_of(
        agents=[
            member("planner", output=PLAN),
            {"name": "searcher", "prompt": "Search {{ output.planner.searches | join(', ') }}"},
        ],
        collaboration_model={
            "type": "graph",
            "routing_graph": {
                "planner": [{"to": "searcher", "when": {"output": {"need_more": True}}}, "END"],
                "searcher": ["planner"],
            },
        },
    ),
    _typed_script,
)

NOTE = {"name": "client_note", "description": "Note.", "input_schema": {"type": "object"}}
"""A client tool."""


def _formed_script(request: Request) -> ScriptedReply:
    """Answer in words, unless the request demands a form. The first answer in each form is wrong."""
    asked_again = "cannot be used" in str(request.messages[-1]["content"])
    if request.output is not None:
        return says('{"searches": ["tides"], "need_more": false}' if asked_again else "no plan")
    if request.tool_choice == "required":
        return says("", ("client_note", {"a": 1}), ("client_note", {"a": 2})) if asked_again else says("no call")
    return says("APPROVED" if speaker(request).startswith("critic") else "a draft")


def _note_answered(world: World) -> None:
    form = {"schema": PLAN}
    [call] = world.history()[-1].calls
    world.answer(successful_outcome(call, "noted"), form=form)


FORMED = Journey(
    team_of(
        agents=[member("writer"), member("critic")],
        collaboration_model={
            "type": "graph",
            "routing_graph": {
                "writer": ["critic"],
                "critic": [{"to": "END", "when": {"contains": "APPROVED"}}, {"to": "writer", "max_times": 3}],
            },
        },
    ),
    _formed_script,
    acts=(
        lambda world: world.send(
            "note it",
            "item1",
            attachments={"client_tools": [NOTE], "answer_form": {"calls": "required", "one_call": True}},
        ),
        _note_answered,
        lambda world: world.send("freely", "item2"),
    ),
    options={"conversation": True, "answer_form": {"schema": PLAN, "instructions": "Be brief."}},
)

POLITE = {"name": "polite", "function": "shop.guards:polite", "effect": "pure"}
"""A guard."""


GUARDED = Journey(
    team_of(
        agents=[member("one")],
        tools=[POLITE],
        collaboration_model={"type": "sequential"},
        guards={"input": ["polite"], "on_refusal": {"answer": "I cannot help with that."}},
    ),
    lambda request: says(f"answer {own_turns(request)}"),
    {"polite": lambda args, context: {"passed": "rude" not in args["text"], "reason": "it is rude"}},
    acts=(lambda world: world.send("something rude", "item1"),),
    options={"conversation": True},
)


ANSWERS_GUARDED = Journey(
    team_of(
        agents=[member("one"), member("two")],
        tools=[POLITE],
        collaboration_model={"type": "sequential"},
        guards={"output": ["polite"], "on_refusal": {"answer": "I cannot say that."}},
    ),
    lambda request: says(f"{speaker(request)} says {own_turns(request)}"),
    {"polite": lambda args, context: {"passed": args["text"] != "two says 1", "reason": "it is rude"}},
    acts=(lambda world: world.send("again", "item1"),),
    options={"conversation": True},
)


def _triage(args: dict[str, Any], context: ToolContext) -> object:
    context.update_state(heard=len(context.messages))
    if context.messages[-1]["role"] != "tool":
        return AgentAnswer("adding", calls=[("add", {"a": 1, "b": 2})])
    return AgentAnswer(f"the sum is {context.messages[-1]['content']}", handoff="second")


FUNCTION_AGENTS = Journey(
    team_of(
        agents=[
            {"name": "triage", "function": "shop.agents:triage", "effect": "pure", "handoffs": ["second"]}
            | {"tools": ["add"]},
            member("first"),
            {"name": "second", "function": "shop.agents:second", "effect": "idempotent", "output": {"type": "integer"}},
        ],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        collaboration_model={"type": "graph", "routing_graph": {"second": ["first"], "first": ["END"]}},
    ),
    lambda request: says(f"{speaker(request)} says {own_turns(request)}"),
    {
        "add": lambda args, context: args["a"] + args["b"],
        "triage": _triage,
        "second": lambda args, context: context.state["heard"],
    },
)

JOURNEYS = {
    "guarded": GUARDED,
    "guarded answers": ANSWERS_GUARDED,
    "functions": FUNCTION_AGENTS,
    "graph": GRAPH,
    "sequential": SEQUENTIAL,
    "manual": MANUAL,
    "tools": TOOLS,
    "custom": CUSTOM,
    "failing": FAILING,
    "typed": TYPED,
}


def assert_same(world: World, expected: World, where: str) -> None:
    """Assert that the history is the expected one, and that the stream shows all of it without a gap."""
    assert not [error for error in world.failures if not isinstance(error, TransientError)], where
    assert world.summary().retried_as == expected.summary().retried_as, where
    for task_id in filter(None, (TASK, expected.summary().retried_as)):
        assert [comparable_step(step) for step in world.history(task_id)] == [
            comparable_step(step) for step in expected.history(task_id)
        ], where
        ended = world.summary(task_id).status
        assert ended is expected.summary(task_id).status, where
        task = world.server.held.tasks.get(task_id)
        assert task is None or not ended.ended or task.forget_at, f"{where} redis never forgets the task"
        assert_whole(world, where, task_id)


def assert_whole(world: World, where: str, task_id: str = TASK) -> None:
    """Assert a sealed chain of digests, and channels that number their messages without a gap and show every step."""
    assert verify_chain(world.histories.lines(task_id)) == len(world.history(task_id)), where
    numbers: dict[tuple[str, bool], list[int]] = {}
    for record in world.published(task_id):
        numbers.setdefault((record["generation"], "chunks" in record), []).append(record["seq"])
    for channel in numbers.values():
        assert channel == list(range(1, len(channel) + 1)), where
    ends = Counter(
        (record["generation"], record["step"]["seq"])
        for record in world.published(task_id)
        if record["type"] == "event_step_end"
    )
    assert all(count == 1 for count in ends.values()), f"{where} a step was published twice: {ends}"
    items = items_of(world.published(task_id), partial(world.histories.read, task_id))
    reader = read_items(items, is_redis_lost=world.server.wiped or world.server.instance > 1)
    assert reader.steps == [step.shown for step in world.history(task_id)], where
