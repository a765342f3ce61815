"""Runs of `what-if`: recorded results, no effect of a tool, and bounds that hold after crashes and losses."""

from typing import Any

import pytest

from roboco import Settings
from roboco.client.operator.what_if import start
from roboco.domain.decision.what_if import effects_to_keep
from roboco.domain.history.part import Artifact, ToolOutcome, ToolResult
from roboco.domain.ids import what_if_id
from roboco.domain.paths import artifact_path, recorded_calls_path
from roboco.domain.recorded.run_comparison import CallCounts, Difference, RunRow, row_of_run, row_of_task
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import NotFound, TransientError, UsageError
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from roboco.tools.function_answer import AgentAnswer
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash, Fault
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.support.selection import PARTS, in_parts

GROUP = "whatif-0a"
RUN = f"{GROUP}-1"
TOOLS = [
    {"name": "weather", "function": "shop.tools:weather", "effect": "pure"},
    {"name": "mark", "function": "shop.tools:mark", "effect": "idempotent"},
    {"name": "pay", "function": "shop.tools:pay", "effect": "irreversible", "approval": "required"},
]
SHOP = team_of(
    agents=[{"name": "clerk", "prompt": "You are old.", "tools": ["weather", "mark", "pay"]}],
    tools=TOOLS,
    collaboration_model={"type": "sequential"},
)
CALLS = (("weather", {"city": "Rome"}), ("mark", {"order": 1}), ("pay", {"euros": 5}))


def with_prompt(prompt: str, team: Team = SHOP) -> Team:
    return team.model_copy(update={"agents": (team.agents[0].model_copy(update={"prompt": prompt}),)})


def script(request: Request) -> ScriptedReply:
    """The old clerk makes all calls. The new one repeats two of them, and makes three that are not recorded."""
    if any(message["role"] == "tool" for message in request.messages):
        return says("done")
    if "new" not in str(request.messages[0]["content"]):
        return says("", *CALLS)
    return says(
        "",
        CALLS[2],
        ("weather", {"city": "Rome"}),
        ("weather", {"city": "Oslo"}),
        ("mark", {"order": 2}),
        ("pay", {"euros": 500}),
    )


def shop_world() -> World:
    calls: list[str] = []

    def run(name: str) -> Any:
        def effect(args: dict[str, Any], context: ToolContext) -> str:
            calls.append(f"{context.task_id} {name} {args}")
            return f"{name} number {len(calls)}"

        return effect

    world = World(world_parts(script, {one["name"]: run(one["name"]) for one in TOOLS}))
    world.effects = calls  # type: ignore[attr-defined]
    return world


def ended_world() -> World:
    world = shop_world()
    world.submit(SHOP)
    world.settle()
    [call] = [call for call in world.history()[1].calls if call.tool_name == "pay"]
    world.decide_approval(call.id, True)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    return world


def start_runs(world: World, source: str = TASK, seq: int | None = None, **options: Any) -> list[str]:
    """Start the runs of the comparison 0a, or of another one."""
    given: Any = {"what_if": "0a", **options}
    return start(world.engine, Settings(), source, seq, given)[1]


def effects(world: World) -> list[str]:
    return [one for one in world.effects if not one.startswith(TASK)]  # type: ignore[attr-defined]


def results(world: World, task_id: str = RUN) -> list[ToolResult]:
    return [result for step in world.history(task_id) for result in step.results]


def row(world: World, task_id: str = RUN) -> RunRow:
    frozen = world.engine.workspace.frozen_teams
    record = frozen.recorded_calls_of(task_id)
    return row_of_run(world.summary(task_id), world.history(task_id), frozen.get(task_id), record, world.history())


def test_a_run_of_the_same_team_gets_the_recorded_results_and_runs_no_tool() -> None:
    world = ended_world()
    assert start_runs(world, runs=2) == [f"{GROUP}-1", f"{GROUP}-2"]
    for task_id in (f"{GROUP}-1", f"{GROUP}-2"):
        world.settle(task_id)
        assert world.summary(task_id).status is TaskStatus.COMPLETED
        assert [one.result for one in results(world, task_id)] == [one.result for one in results(world, TASK)]
        assert [one.tool_call_id for one in results(world, task_id)] != [
            one.tool_call_id for one in results(world, TASK)
        ]
    assert effects(world) == []
    found = row(world)
    assert (found.calls, found.difference, found.route) == (CallCounts(recorded=3), None, ("clerk",))
    own = row_of_task(world.summary(), world.history(), 0)
    assert (own.calls, own.route, own.result) == (CallCounts(run=3), ("clerk",), "done")


def test_a_run_gets_what_was_recalled_and_changes_no_memory() -> None:
    words = [("remember", {"text": "tea"}), ("recall", {"query": "tea"}), ("forget", {"id": "mem_1"})]
    clerk = {"name": "clerk", "prompt": "You are old.", "tools": ["remember", "recall", "forget"]}
    team, ran = team_of(agents=[clerk], memory={"of": "tenant"}), list[str]()

    def reply(request: Request) -> ScriptedReply:
        if any(message["role"] == "tool" for message in request.messages):
            return says("done")
        new = [(name, {key: f"{value} 2" for key, value in args.items()}) for name, args in words]
        return says("", *words, *(new if "new" in str(request.messages[0]["content"]) else []))

    def answer(args: dict[str, Any], context: ToolContext) -> str:
        ran.append(f"{context.task_id} {args}")
        return "from the memory"

    world = World(world_parts(reply, {name: answer for name, _ in words}))
    world.submit(team)
    world.settle()
    start_runs(world, team=with_prompt("You are new.", team))
    world.settle(RUN)
    assert [one for one in ran if not one.startswith(TASK)] == [f"{RUN} {{'query': 'tea 2'}}"]
    assert [one.error is None for one in results(world)] == [True, True, True, False, True, False]
    assert "it changes the memory that other tasks share" in str(results(world)[3].error)


def test_a_call_without_a_record_runs_if_it_is_pure_and_is_refused_otherwise() -> None:
    world = ended_world()
    start_runs(world, team=with_prompt("You are new."))
    world.settle(RUN)
    assert world.summary(RUN).status is TaskStatus.COMPLETED, "the run waits for no approval"
    paid, rome, oslo, marked, more = results(world)
    assert (paid.result, rome.result) == ("pay number 3", "weather number 1")
    assert effects(world) == [f"{RUN} weather {{'city': 'Oslo'}}"]
    assert (oslo.is_error, marked.is_error, more.is_error) == (False, True, True)
    assert str(more.error) == (
        "not run: this is a what-if run, and task 'task_1' has no recorded result for 'pay' with these arguments "
        "(its effect is irreversible)"
    )
    assert "its effect is idempotent" in str(marked.error)
    found = row(world)
    assert found.calls == CallCounts(recorded=2, run=1, refused=2)
    assert (found.difference, found.route_differs_at) == (Difference(seq=1, what="calls"), 1)


def triage(effect: str) -> tuple[World, list[str], list[str]]:
    """Return a world whose task had a turn of a function, the texts that it has heard, and what its writer says."""
    said, heard = ["a refund"], list[str]()

    def function(args: dict[str, Any], context: ToolContext) -> AgentAnswer:
        heard.append(str(context.messages[-1]["content"]))
        return AgentAnswer(f"answer {len(heard)}")

    agents = [{"name": "writer", "prompt": "p"}, {"name": "triage", "function": "a.b:triage", "effect": effect}]
    world = World(world_parts(lambda request: says(said[0]), {"triage": function}))
    world.submit(team_of(agents=agents))
    world.settle()
    return world, heard, said


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
def test_a_function_that_hears_something_else_runs_if_it_is_pure_and_is_refused_otherwise(effect: str) -> None:
    world, heard, said = triage(effect)
    said[0] = "a complaint"
    start_runs(world)
    world.settle(RUN)
    if effect == "pure":
        assert world.history(RUN)[-1].text == "answer 2"
        assert heard[1:] == ["[writer] a complaint"]
        assert row(world).calls == CallCounts(run=1)
    else:
        assert "has no recorded result for 'triage' after this conversation" in world.summary(RUN).reason
        assert len(heard) == 1
        assert row(world).calls == CallCounts(refused=1)


def test_equal_calls_get_the_recorded_results_in_their_order() -> None:
    """The third equal call has no recorded result."""
    rome = ("weather", {"city": "Rome"})

    def again(request: Request) -> ScriptedReply:
        turns = sum(message["role"] == "tool" for message in request.messages)
        wanted = 3 if "new" in str(request.messages[0]["content"]) else 2
        return says("", rome) if turns < wanted else says("done")

    world = shop_world()
    world.given.model.script = again
    world.submit(SHOP)
    world.settle()
    start_runs(world, team=with_prompt("You are new."))
    world.settle(RUN)
    assert [one.result for one in results(world)] == ["weather number 1", "weather number 2", "weather number 3"]
    assert effects(world) == [f"{RUN} weather {{'city': 'Rome'}}"]
    start_runs(world, what_if="0b", seq=2, team=with_prompt("You are new."))
    world.settle("whatif-0b-1")
    assert [one.result for one in results(world, "whatif-0b-1")][:2] == ["weather number 1", "weather number 2"]
    assert row(world, "whatif-0b-1").calls == CallCounts(recorded=1, run=1)


@in_parts
def test_no_crash_lets_a_run_have_an_effect(part: int) -> None:
    """The client, the workers and the coordinator die before each port call, and each message is delivered again."""
    n, struck = part - PARTS + 1, True
    while struck:
        n += PARTS
        world = ended_world()
        world.watch = fault = Fault(n, Crash())
        for _ in range(3):
            try:
                start_runs(world, team=with_prompt("You are new."))
                break
            except TransientError:
                continue
            except Crash:
                world.engine = world.process()
        world.settle(RUN)
        struck = fault.struck
        assert {one.partition(" ")[2] for one in effects(world)} == {"weather {'city': 'Oslo'}"}, n
        assert [one.is_error for one in results(world)] == [False, False, False, True, True], n
    assert n > 40


def test_a_run_without_its_record_has_no_effect() -> None:
    """As after a restore that has lost the file: the worker refuses what it cannot answer."""
    world = ended_world()
    start_runs(world)
    del world.files.held[recorded_calls_path(RUN)]
    world.settle(RUN)
    assert effects(world) == [f"{RUN} weather {{'city': 'Rome'}}"]


PURE_PAY = {"name": "pay", "function": "shop.tools:pay", "effect": "pure"}


@pytest.mark.parametrize(
    ("changed", "nested"),
    [(PURE_PAY | {"name": "transfer"}, False), (PURE_PAY | {"function": "shop.other:pay"}, True)],
    ids=["name", "function, nested"],
)
def test_a_team_that_calls_an_irreversible_tool_pure_cannot_run_it(changed: dict[str, Any], nested: bool) -> None:
    name = changed["name"]

    def paying(request: Request) -> ScriptedReply:
        if request.messages[-1]["role"] == "tool":
            return says("done")
        delegates = any("delegate" in str(tool) for tool in request.tools)
        call = ("delegate", {"team": "inner", "prompt": "pay"}) if delegates else (name, {"euros": 500})
        return says("", call, ("weather", {"city": "Oslo"})) if not delegates else says("", call)

    world = ended_world()
    world.given.model.script = paying
    world.given.toolbox.functions = dict(world.given.toolbox.functions) | {
        "transfer": world.given.toolbox.functions["pay"]
    }
    team = team_of(
        agents=[{"name": "clerk", "prompt": "You are new.", "tools": ["weather", name]}], tools=[TOOLS[0], changed]
    )
    if nested:
        inner = team.model_dump(mode="json", exclude_none=True) | {"name": "inner"}
        outer = {"name": "clerk", "prompt": "You are new.", "delegates": ["inner"]}
        team = team_of(agents=[outer], teams={"inner": inner})
    start_runs(world, team=team)
    world.settle(RUN)
    assert world.summary(RUN).status is TaskStatus.COMPLETED
    assert [one.partition(" ")[2] for one in effects(world)] == ["weather {'city': 'Oslo'}"]
    errors = [
        str(one.error)
        for path in world.files.held
        if path.endswith("/team.json")
        for one in results(world, path.partition("/")[0])
    ]
    assert any("its effect is irreversible in the task's own team" in error for error in errors)


SERVER = {"url": "https://tools.example/mcp"}


@pytest.mark.parametrize(
    ("servers", "changed", "kept"),
    [
        ({"a": SERVER | {"tools": {"pay": {"effect": "irreversible"}}}}, {"a": SERVER}, {"a_pay": "irreversible"}),
        (
            {"a": SERVER | {"tools": {"pay": {"effect": "idempotent"}}}},
            {"b": SERVER | {"tools": {"pay": {"effect": "pure"}}}},
            {"b_pay": "idempotent"},
        ),
        ({"a": SERVER}, {"b": SERVER | {"tools": {"pay": {"effect": "pure"}}}}, {"b_pay": "irreversible"}),
        ({}, {"a": SERVER | {"tools": {"pay": {"effect": "pure"}}}}, {}),
    ],
)
def test_tools_of_servers_keep_the_effects_that_the_team_of_the_task_declares(
    servers: dict[str, Any], changed: dict[str, Any], kept: dict[str, str]
) -> None:
    agents = [{"name": "clerk", "prompt": "Work."}]
    source, team = (team_of(agents=agents, mcp_servers=one) for one in (servers, changed))
    assert effects_to_keep(team, source) == kept
    outer = team_of(
        agents=agents, teams={"inner": source.model_dump(mode="json", exclude_none=True) | {"name": "inner"}}
    )
    assert effects_to_keep(team, outer) == kept


DELEGATING = team_of(
    agents=[{"name": "clerk", "prompt": "You are old.", "delegates": ["inner"]}],
    teams={"inner": SHOP.model_dump(mode="json", exclude_none=True) | {"name": "inner"}},
)


def test_a_sub_task_is_answered_from_the_record_or_is_a_run_too() -> None:
    def delegating(request: Request) -> ScriptedReply:
        system, done = str(request.messages[0]["content"]), request.messages[-1]["role"] == "tool"
        if done:
            return says("done")
        if not any("delegate" in str(tool) for tool in request.tools):
            return says("", ("mark", {"order": 1}))
        prompt = "something else" if "new" in system else "go"
        return says("", ("delegate", {"team": "inner", "prompt": prompt}))

    world = shop_world()
    world.given.model.script = delegating
    world.submit(DELEGATING)
    world.settle()
    assert len(world.effects) == 1  # type: ignore[attr-defined]
    start_runs(world)
    world.settle(RUN)
    assert row(world).calls == CallCounts(recorded=1)
    assert not [path for path in world.files.held if path.startswith(f"{RUN}.")], "there is no sub-task"
    assert row(world).difference is None

    start_runs(world, what_if="0b", team=with_prompt("You are new.", DELEGATING))
    other = "whatif-0b-1"
    world.settle(other)
    [child] = {path.partition("/")[0] for path in world.files.held if path.startswith(f"{other}.")}
    assert what_if_id(child) == "whatif-0b"
    assert "its effect is idempotent" in str(results(world, child)[0].error)
    assert len(world.effects) == 1  # type: ignore[attr-defined]


def test_files_of_recorded_results_are_copied() -> None:
    def keep_file(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
        world.files.create(artifact_path(context.task_id, "map.txt"), b"7")
        artifact = Artifact(artifact_id="map.txt", uri="file://artifacts/map.txt", mime_type="text/plain")
        return ToolOutcome(result=ToolResult(tool_call_id=context.call_id, result="kept"), artifacts=(artifact,))

    world = shop_world()
    world.given.toolbox.functions = dict(world.given.toolbox.functions) | {"weather": keep_file}
    world.given.model.script = lambda request: (
        says("done") if request.messages[-1]["role"] == "tool" else says("", CALLS[0])
    )
    world.submit(SHOP)
    world.settle()
    start_runs(world)
    assert world.files.held[artifact_path(RUN, "map.txt")] == b"7"


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"seq": 9}, "the task has the steps 0 to"), ({"source": "other"}, "no task 'other'"), ({"seq": -1}, "no step")],
)
def test_a_wrong_request_starts_nothing(fields: dict[str, Any], message: str) -> None:
    world = ended_world()
    before = set(world.files.held)
    with pytest.raises((UsageError, NotFound), match=message):
        start_runs(world, **fields)
    assert set(world.files.held) == before
