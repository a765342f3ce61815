"""Teams with an MCP server, the sandbox, files, memory and limits, on real workers."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco import Task, parse_team
from roboco.cli.commands.demo import shipped_team
from roboco.tools.sandbox.sandbox import Sandbox
from tests.integration.cli.shell import Shell
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import TOOLS, Stack, until

pytestmark = pytest.mark.workers

LIBRARY = shlex.join((sys.executable, "-m", "roboco.examples.library"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three workers that may start the MCP server `library`."""
    with Stack(tmp_path_factory.mktemp("stack"), allowlist={"mcp_servers": (LIBRARY,)}) as started:
        yield started


def run(stack: Stack, team: Any, responder: Any, prompt: str = "go", **options: Any) -> Task:
    stack.model.script(responder)
    return stack.orchestrator.run(team, prompt, **options)


def calls(task: Task) -> list[tuple[str, Any]]:
    """Return the name of each tool that was called, with its result or error."""
    steps = task.history()
    names = {call.id: call.tool_name for step in steps for call in step.calls}
    return [(names[result.tool_call_id], result.error or result.result) for step in steps for result in step.results]


def json_call(tool: str, **args: Any) -> Reply:
    return Reply(text=json.dumps({"calls": [{"tool": tool, "args": args}]}))


def research_reply(request: Request) -> Reply:
    """Return the reply of a capable model, in JSON if the request asks for it."""
    if "Pick the tools" not in request.system:
        return Reply(text=f"I have it: {request.last_user[:60]}")
    return json_call("library_measurements", place="husum")


def test_the_shipped_research_team_completes(stack: Stack) -> None:
    if refusal := Sandbox().refusal():
        pytest.skip(refusal)
    task = run(stack, shipped_team("research"), research_reply, "What is the mean high water level at Husum?")
    ended = task.result(60)
    assert ended.status == "completed", ended.reason
    results = dict(calls(task))
    levels = [402, 415, 409, 396, 421, 411, 405]
    assert results["library_measurements"] == {"place": "husum", "unit": "cm", "high_water": levels}
    assert results["python"] == {"output": "408.42857142857144\n", "exit_code": 0}
    [report] = task.artifacts()
    assert (report.name, task.artifact("report.md")) == ("report.md", b"The mean is 408.4 cm.")
    looked_up = next(step for step in task.history() if step.calls)
    assert looked_up.metadata["effects"] == {"library_measurements": "pure"}


CLERK = {
    "name": "clerk",
    "memory": {"of": "context.user"},
    "agents": [{"name": "clerk", "prompt": "clerk", "tools": ["remember", "recall", "forget"]}],
}


def clerk_reply(request: Request) -> Reply:
    """Remember what the user says, recall what the user asks for, and forget the entry that it names."""
    if request.tool_results:
        return Reply(text=str(request.tool_results[-1][1]))
    verb, _, rest = request.last_user.partition(" ")
    named = {"remember": "text", "recall": "query", "forget": "id"}
    return Reply(tool_calls=[(verb, {named[verb]: rest})])


def test_what_an_agent_remembers_is_recalled_in_a_later_task_of_the_same_user_alone(
    stack: Stack, tmp_path: Path
) -> None:
    team, operator = parse_team(CLERK), stack.orchestrator.operator

    def ask(prompt: str, user: str) -> Any:
        task = run(stack, team, clerk_reply, prompt, context={"user": user})
        assert task.result(60).status == "completed"
        return calls(task)[0][1]

    entry = ask("remember she drinks green tea", "alice")["id"]
    [found] = ask("recall tea", "alice")
    assert (found["id"], found["text"], found["agent"]) == (entry, "she drinks green tea", "clerk")
    assert ask("recall tea", "bob") == []
    assert "no entry" in ask(f"forget {entry}", "bob")
    assert [one.text for one in operator.memory("context.user", "alice").entries] == ["she drinks green tea"]
    shell = Shell(tmp_path, stack.environment)
    assert "she drinks green tea" in shell.call("memory", "context.user=alice")
    assert "no entries for context.user=bob" in shell.call("memory", "context.user=bob")
    assert ask(f"forget {entry}", "alice") == {"forgotten": entry}
    assert ask("recall tea", "alice") == []
    ask("remember she has a dog", "alice")
    assert shell.call("memory", "all", "--erase", "--yes") == "1 entries are erased\n"
    assert ask("recall dog", "alice") == []


def describe_files(request: Request) -> Reply:
    """Return a call of the tool that draws, and then what the model was shown."""
    if not request.tool_results:
        return Reply(tool_calls=[("draw", {"name": "dot.png"})])
    parts = [
        part for message in request.messages if isinstance(message["content"], list) for part in message["content"]
    ]
    hidden = [part["text"].count("not shown") for part in parts if part["type"] == "text"]
    return Reply(text=f"{[part['type'] for part in parts]} {hidden}")


def test_files_of_users_and_of_functions_are_sent_to_models_that_accept_them(stack: Stack, tmp_path: Path) -> None:
    report = tmp_path / "report.pdf"
    report.write_bytes(b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n")
    team = parse_team(
        {
            "name": "drawers",
            "models": {
                "all": {"model": "scripted", "accepts": ["image", "pdf"]},
                "images": {"model": "scripted", "images": True},
            },
            "agents": [
                {"name": "one", "prompt": "hi", "model": "all", "tools": ["draw"], "tool_choice": "first"},
                {"name": "two", "prompt": "hi", "model": "images"},
            ],
            "tools": [{"name": "draw", "function": f"{TOOLS}:draw", "effect": "pure"}],
        }
    )
    task = run(stack, team, describe_files, "draw it", files=[report])
    assert task.result(60).raise_for_status().text == "['text', 'image_url'] [0]"
    history = task.history()
    assert history[3].text == "['text', 'file', 'text', 'image_url'] [0, 0]"
    assert [(one.name, one.mime_type) for one in history[2].artifacts] == [("dot.png", "image/png")]
    first = next(message for message in stack.model.requests[-1].request.messages if message["role"] == "user")
    assert "(not shown: file://artifacts/report.pdf, since your model accepts no pdf)" in json.dumps(first)


LIMITED = {
    "name": "patient",
    "collaboration_model": {"type": "sequential", "rounds": 9},
    "models": {"m": {"model": "scripted", "price_in": 1000, "price_out": 1000}},
    "agents": [{"name": "one", "prompt": "hi"}],
    "limits": {"max_steps": 3, "at_limit": "pause"},
}


def test_a_raised_limit_continues_the_task_and_decisions_are_explained(stack: Stack, tmp_path: Path) -> None:
    task = run(stack, parse_team(LIMITED), lambda request: Reply(text="on", usage=(30, 10)), "count")
    paused = task.result(60)
    assert (paused.status, paused.reason) == (
        "paused",
        "the task has 3 steps, max_steps is 3; raise the limit to go on",
    )
    shell = Shell(tmp_path, stack.environment)
    assert f"stays paused: {paused.reason}, with: roboco limits" in shell.call("resume", task.task_id)
    output = shell.call("limits", task.task_id, "--max-steps", "50", "--max-cost", "0.1")
    assert output == f"{task.task_id} has new limits: max_steps 50, max_cost 0.1\n"
    until(lambda: "max_cost" in task.summary().reason, 60, "the next limit is reached")
    assert task.summary().cost == pytest.approx(0.08)
    shown = shell.call("show", task.task_id)
    assert "cost 0.08" in shown
    context = shell.call_json("context", task.task_id, "--json")
    assert context["changes"]["added"] == [[1, 1]]
    assert "max_cost is 0.1" in shell.call("why", task.task_id)
    assert "choices are the same" in shell.call("replay", task.task_id)
