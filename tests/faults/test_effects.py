"""A tools worker killed during an irreversible call: the effect happens at most once, and its outcome is resolved."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from roboco import Task, Team, parse_team
from roboco.domain.history.part import ToolResult
from tests.integration.cli.shell import Desk, Shell
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack")) as running:
        running.model.script(answer)
        yield running


def answer(request: Request) -> Reply:
    if request.count("assistant"):
        return Reply(text="done")
    return Reply(tool_calls=[("append_line", {"when": request.last_user}), ("add", {"a": 1, "b": 2})])


def team(**fields: Any) -> Team:
    """Return a team whose agent appends a line with an irreversible tool."""
    functions = "tests.support.tools_for_agents"
    return parse_team(
        {
            "name": "lines",
            "agents": [{"name": "clerk", "prompt": "clerk", "tools": ["append_line", "add"]}],
            "tools": [
                {"name": "append_line", "function": f"{functions}:append_line", "timeout": 20} | fields,
                {"name": "add", "function": f"{functions}:add", "effect": "pure"},
            ],
        }
    )


def count_lines(stack: Stack) -> Counter[str]:
    path = stack.folder / "lines.txt"
    return Counter(path.read_text().splitlines() if path.exists() else ())


def run_until_killed(stack: Stack, prompt: str, **fields: Any) -> Task:
    """Run a task, and kill its tools worker before ("late") or after ("early") the call's effect. Return the task."""
    before = stack.count_tool_lines()
    task = stack.orchestrator.run(team(**fields), prompt)
    call_id = _call_id(task)
    until(lambda: stack.count_tool_lines() > before, 60, "the call runs")
    if prompt == "early":
        until(lambda: count_lines(stack)[call_id], 60, "the line is written")
    stack.restart("tools")
    return task


def _call_id(task: Task) -> str:
    until(lambda: len(task.history()) > 1, 60, "the call is made")
    return task.history()[1].calls[0].id


def wait_for_result(task: Task) -> ToolResult:
    assert task.result(60).status == "completed"
    assert task.history()[2].results[1].result == 3
    return task.history()[2].results[0]


@pytest.mark.parametrize("prompt", ["early", pytest.param("late", marks=pytest.mark.nightly)])
def test_the_agent_reads_that_the_outcome_is_unknown(stack: Stack, prompt: str) -> None:
    task = run_until_killed(stack, prompt)
    assert "outcome unknown: the worker that ran this call was lost" in str(wait_for_result(task).error)
    assert "outcome unknown" in Desk(stack, stack.folder).call("why", task.task_id)
    assert count_lines(stack)[_call_id(task)] == (prompt == "early")


@pytest.mark.parametrize("prompt", ["early", pytest.param("late", marks=pytest.mark.nightly)])
def test_a_tool_with_verify_finds_the_outcome(stack: Stack, prompt: str) -> None:
    task = run_until_killed(stack, prompt, function="tests.support.tools_for_agents:append_known_line")
    found = wait_for_result(task)
    assert (found.result, found.is_error) == (("the line is there", False) if prompt == "early" else (None, True))
    assert count_lines(stack)[_call_id(task)] == (prompt == "early")


@pytest.mark.parametrize(
    "way",
    [pytest.param("python", marks=pytest.mark.nightly), pytest.param("celery", marks=pytest.mark.nightly), "command"],
)
def test_a_user_resolves_an_unknown_outcome(stack: Stack, way: str, tmp_path: Path) -> None:
    task = run_until_killed(stack, "early", on_unknown="ask")
    waiting = task.result(60)
    call_id = _call_id(task)
    assert waiting.status == "approval"
    assert f"append_line ({call_id})" in waiting.reason
    match way:
        case "python":
            task.resolve(call_id, True, "there")
        case "celery":
            arguments = {"task_id": task.task_id, "call_id": call_id, "happened": True, "result": "there"}
            with Celery(broker=stack.valkey.url) as producer:
                producer.send_task("roboco.resolve", kwargs=arguments, queue="roboco.coordinator")
        case _:
            shell = Shell(tmp_path, stack.environment)
            assert call_id in shell.call("show", task.task_id)
            shell.call("resolve", task.task_id, call_id, "--happened", "--result", '"there"')
    until(
        lambda: task.summary().status != "approval", 20, "the resolution is applied"
    )  # its step is stored before that
    assert wait_for_result(task).result == "there"
    assert count_lines(stack)[call_id] == 1
