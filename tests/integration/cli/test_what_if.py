"""roboco what-if over running workers: runs with recorded results beside their task, which no tool affects."""

import json
import signal
import threading
from typing import Any

import pytest

from roboco import Task
from tests.integration.cli.process import CommandProcess
from tests.integration.cli.shell import Desk
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

FUNCTIONS = "tests.support.tools_for_agents"
TEAM: dict[str, Any] = {
    "name": "till",
    "models": {"plain": {"model": "scripted", "default": True}, "other": {"model": "other"}},
    "collaboration_model": {"type": "sequential"},
    "agents": [
        {"name": "clerk", "prompt": "You are a clerk.", "tools": ["append_line", "add"]},
        {"name": "critic", "prompt": "You are a critic."},
    ],
    "tools": [
        {"name": "append_line", "function": f"{FUNCTIONS}:append_line"},
        {"name": "add", "function": f"{FUNCTIONS}:add", "effect": "pure"},
    ],
}


def till_reply(request: Request) -> Reply:
    """The clerk appends a line and adds; a brave one would append another line at once. The critic judges."""
    if "critic" in request.system:
        return Reply(text="fine")
    if request.tool_results:
        return Reply(text=f"it is {request.tool_results[-1][1]}")
    when = "early" if "brave" in request.system else "soon"
    return Reply(tool_calls=[("append_line", {"when": when}), ("add", {"a": 1, "b": 2})])


@pytest.fixture
def desk(shared_stack: Stack) -> Desk:
    shared_stack.model.script(till_reply)
    return Desk(shared_stack, shared_stack.folder)


def ended_task(desk: Desk) -> Task:
    task = desk.run("go", TEAM)
    assert task.result(60).status == "completed"
    return task


def report_of(output: str) -> dict[str, Any]:
    """Return the JSON of a command, which notes on stderr precede."""
    found: dict[str, Any] = json.loads(output[output.index("{") :])
    return found


def listed_runs(desk: Desk) -> set[str]:
    return {one.task_id for one in desk.stack.orchestrator.tasks(text="go") if one.task_id.startswith("whatif-")}


def lines(desk: Desk) -> int:
    path = desk.folder / "lines.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.slow
def test_runs_are_compared_with_their_task_and_have_no_effect(desk: Desk) -> None:
    task = ended_task(desk)
    before = lines(desk)
    prompt = desk.folder / "brave.txt"
    prompt.write_text("You are a brave clerk.")
    same = report_of(desk.call("what-if", task.task_id, "--model", "other", "--runs", "3", "--json"))
    assert [row["status"] for row in same["runs"]] == ["completed"] * 3
    assert [row["calls"] for row in same["runs"]] == [{"recorded": 2, "run": 0, "refused": 0}] * 3
    assert [row["difference"] for row in same["runs"]] == [None] * 3
    assert same["task"]["route"] == ["clerk", "critic"]
    assert desk.stack.model.requests[-1].request.model == "other"

    brave = desk.call("what-if", task.task_id, "--prompt", f"clerk={prompt}")
    assert "clerk > critic" in brave
    assert "step 1: route" in brave
    assert lines(desk) == before, "an irreversible tool never runs"
    run_id = brave.rpartition("1 is ")[2].partition(":")[0].strip()
    refused = desk.stack.orchestrator.task(run_id).history()[2].results[0]
    assert "has no recorded result for 'append_line' with these arguments" in str(refused.error)
    assert run_id in listed_runs(desk)


@pytest.mark.slow
def test_ctrl_c_stops_the_runs(desk: Desk) -> None:
    task = ended_task(desk)
    released, asked, earlier = threading.Event(), len(desk.stack.model.requests), listed_runs(desk)
    desk.stack.model.script(lambda request: Reply(text="late", held_until=released))
    try:
        with CommandProcess(["what-if", task.task_id, "--runs", "2"], desk.folder, desk.stack.environment) as command:
            until(lambda: len(desk.stack.model.requests) >= asked + 2, 60, "both runs ask the model")
            command.send_signal(signal.SIGINT)
            assert command.wait_for_exit() == 130
            assert "the runs are stopped" in command.errors
        until(lambda: len(listed_runs(desk) - earlier) == 2, 60, "both runs are listed")
        runs = [desk.stack.orchestrator.task(task_id) for task_id in listed_runs(desk) - earlier]
        until(lambda: all(run.summary().status == "cancelled" for run in runs), 60, "both runs are stopped")
    finally:
        released.set()
