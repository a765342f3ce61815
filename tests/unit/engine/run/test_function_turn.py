"""A turn of an agent that is a function: a call for the agent, and its answer as the agent's step."""

from typing import Any

import pytest

from roboco.client.task_result import result_of
from roboco.domain.history.state import fold
from roboco.domain.history.step import verify_chain
from roboco.domain.status import TaskStatus
from roboco.domain.task_usage import TaskUsage
from roboco.engine.accept.answer import CallResolution, resolve_unknown
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from roboco.tools.function_answer import AgentAnswer
from tests.support.memory_ports.dispatcher import ToolMessage
from tests.support.memory_ports.journeys import member, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.toolbox import Function
from tests.support.memory_ports.watch import crash_at, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "function": f"shop.agents:{name}", "effect": "pure"} | fields


def run(functions: dict[str, Function], agents: list[dict[str, Any]], **fields: Any) -> World:
    world = World(world_parts(lambda request: says(f"{speaker(request)} heard"), functions))
    world.submit(team_of(agents=agents, **fields))
    world.settle()
    return world


ADD = {"name": "add", "function": "shop.sums:add", "effect": "pure"}


def agents_of(world: World, task_id: str = TASK) -> list[str]:
    return [step.agent_name for step in world.history(task_id)]


def test_its_turn_is_a_call_and_its_answer() -> None:
    def triage(args: dict[str, Any], context: ToolContext) -> str:
        context.update_state(kind="refund")
        return f"saw {[message['content'] for message in context.messages]}"

    world = run({"triage": triage}, [function("triage"), member("writer")])
    assert agents_of(world) == ["user", "triage", "tool_executor", "triage", "writer"]
    assert world.summary().status is TaskStatus.COMPLETED
    history = world.history()
    assert history[3].text == f"saw ['{history[0].text}']"
    assert history[3].metadata["routing"]["rule"] == "results"
    assert fold(history).values == {"kind": "refund"}
    state = fold(history)
    assert state.turns == {"triage": 1, "writer": 1}
    assert (state.agents["triage"].steps, state.agents["triage"].calls, state.calls, state.tools) == (1, 0, 0, {})
    cells = TaskUsage(task_id=TASK).after(history).cells
    assert [(cell.agent, cell.tool, cell.turns, cell.calls) for cell in cells] == [
        ("triage", "", 1, 0),
        ("writer", "", 1, 0),
    ]
    verify_chain([step.line() for step in history])
    [request] = world.given.model.requests  # the call is not shown to models, only the answer
    texts = [str(message["content"]) for message in request.messages[1:]]
    assert texts == [history[0].text, f"[triage] {history[3].text}"]
    chosen = [one["type"] for one in world.events() if one["type"] in ("event_agent_select", "event_tool_call")]
    assert chosen == ["event_agent_select", "event_tool_call", "event_agent_select"]


def test_its_typed_answer_leads_edges_and_state() -> None:
    team = {
        "type": "graph",
        "routing_graph": {"triage": [{"to": "writer", "when": {"output": {"kind": "refund"}}}, "END"]},
    }
    schema = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    agents = [function("triage", output=schema, state=["kind"]), member("writer")]
    world = run({"triage": lambda args, context: {"kind": "refund"}}, agents, collaboration_model=team)
    assert agents_of(world)[3:] == ["triage", "writer"]
    assert world.history()[3].metadata["output"] == {"kind": "refund"}
    assert fold(world.history()).values == {"kind": "refund"}
    assert result_of(world.summary(), world.history()).outputs == {"triage": {"kind": "refund"}}
    wrong = run({"triage": lambda args, context: {"sort": 1}}, agents, collaboration_model=team)
    assert wrong.summary().status is TaskStatus.FAILED
    assert "triage: UsageError: it returned a value that does not fit its output: " in wrong.summary().reason
    assert "kind" in wrong.summary().reason


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (AgentAnswer(handoff="another"), "cannot hand off to 'another'"),
        (AgentAnswer(calls=[("triage", {})]), "cannot call 'triage'"),
        (AgentAnswer(calls=[("add", {})] * 101), "made 101 calls"),
        (AgentAnswer("x" * 300_000), "bytes of JSON"),
        (AgentAnswer({"topic": "x"}), "AgentAnswer.text is a dict: use output="),  # type: ignore[arg-type]
    ],
)
def test_an_answer_out_of_bounds_fails_the_task(answer: AgentAnswer, why: str) -> None:
    agents = [function("triage", tools=["add"], handoffs=["writer"]), member("writer")]
    world = run({"triage": lambda args, context: answer}, agents, tools=[ADD])
    assert world.summary().status is TaskStatus.FAILED
    assert why in world.summary().reason


def test_an_exception_fails_the_task_and_a_retry_calls_the_function_again() -> None:
    broken = [True]

    def triage(args: dict[str, Any], context: ToolContext) -> str:
        if broken:
            raise RuntimeError("no queue")
        return "done"

    world = run({"triage": triage}, [function("triage")])
    assert world.summary().status is TaskStatus.FAILED
    assert world.history()[-1].error is not None
    broken.clear()
    retried = world.retry()
    world.settle()
    assert world.history(retried)[-1].text == "done"
    assert world.summary(retried).status is TaskStatus.COMPLETED


def test_a_killed_irreversible_function_asks_a_person() -> None:
    runs: list[ToolContext] = []

    def book(args: dict[str, Any], context: ToolContext) -> str:
        runs.append(context)
        return "booked"

    world = World(world_parts(lambda request: says(""), {"book": book}))
    world.submit(team_of(agents=[function("book", effect=None)]))
    while not any(isinstance(message, ToolMessage) for message in world.dispatcher.queue):
        world.deliver(world.dispatcher.queue.popleft())

    world.watch = crash_at("toolbox.run", after=True)
    world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    world.settle()
    assert world.summary().status is TaskStatus.APPROVAL
    assert len(runs) == 1
    [call] = world.history()[-1].calls
    resolve_unknown(world.engine, TASK, call.id, CallResolution(True, "booked by hand"), "word")
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.history()[-1].text == "booked by hand"
    assert len(runs) == 1


@pytest.mark.parametrize("name", ["support__bad name", f"support__{'x' * 99}"])
def test_a_call_with_an_impossible_name_is_an_error_and_the_task_goes_on(name: str) -> None:
    def f(request: Request) -> ScriptedReply:
        return says("done") if request.messages[-1]["role"] == "tool" else says("", (name, {}))

    support = {"name": "support", "pydantic_ai": "shop.agents:support"}
    graph = {"type": "graph", "routing_graph": {"f": ["END"], "support": ["END"]}}
    world = World(world_parts(f))
    world.submit(team_of(agents=[member("f"), support], collaboration_model=graph))
    world.settle()
    assert (world.summary().status, world.history()[-1].text) == (TaskStatus.COMPLETED, "done")


def test_functions_that_reach_a_limit_with_open_goals_have_not_achieved_them() -> None:
    world = World(world_parts(lambda request: says(""), {"f": lambda args, context: "again"}))
    limits = {"max_steps": 4, "at_limit": "wrap_up"}
    team = team_of(agents=[function("f")], limits=limits, collaboration_model={"type": "sequential", "rounds": 9})
    world.submit(team, goals=[{"name": "answer", "description": "it", "schema": {"type": "object"}}])
    world.settle()
    assert world.summary().status is TaskStatus.GOALS_FAILED
