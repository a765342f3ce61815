"""Failures of models, tools and messages: the history records the reason and stays valid."""

from typing import Any

import pytest

from roboco import Task, parse_team
from tests.integration.cli.shell import Desk
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers

TOOLS = ("add", "raise_error", "hang", "return_object", "large_text")


def solo(model: str = "scripted", timeout: float = 1.0, **profile: Any) -> Any:
    """Return a team of one agent with every tool of the tests. `hang` has this timeout in seconds, the others 60."""
    return parse_team(
        {
            "name": "solo",
            "models": {"only": {"model": model} | profile},
            "agents": [{"name": "worker", "prompt": "worker", "tools": [*TOOLS, "artifact_read", "artifact_list"]}],
            "tools": [
                {
                    "name": name,
                    "function": f"tests.support.tools_for_agents:{name}",
                    "effect": "pure",
                    "timeout": timeout if name == "hang" else 60,
                }
                for name in TOOLS
            ],
        }
    )


def run(stack: Stack, *calls: tuple[str, Any], team: Any = None) -> Task:
    """Return the ended task of a team whose model makes these calls first, and answers "done" after them."""

    def responder(request: Request) -> Reply:
        if calls and request.count("assistant") == 0:
            return Reply(tool_calls=list(calls))
        return Reply(text="done")

    stack.model.script(responder)
    try:
        task = stack.orchestrator.run(team or solo(), "Go.")
        task.result(60)
        return task
    finally:
        stack.model.script(answer)


def failure_of(task: Task) -> str:
    """Return the code and message with which the task failed."""
    assert task.summary().status == "failed"
    error = task.history()[-1].error
    assert error is not None
    assert task.summary().reason == error.message
    return f"{error.code}: {error.message}"


def test_a_refusal_by_the_model_server_fails_the_task_with_the_reason(shared_stack: Stack) -> None:
    expected = "auth: worker: model 'scripted' refuses the key in OPENAI_API_KEY (401)"
    reply = Reply(status=401, text="bad key")
    shared_stack.model.fail_next(1, reply)
    task = run(shared_stack)
    assert failure_of(task).startswith(expected)
    assert "test-key" not in str(task.history())
    desk = Desk(shared_stack, shared_stack.folder)
    assert expected.partition(": ")[2] in desk.call("why", task.task_id)
    continued = shared_stack.orchestrator.task(desk.call("fork", task.task_id).strip())
    assert continued.result(60).status == "completed"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("add", {"a": 1, "b": "two"}), "wrong arguments: b: Input should be a valid integer"),
        (("raise_error", {"message": "no luck"}), "ValueError: no luck"),
        (("hang", {"seconds": 30}), "tool 'hang' did not end within its 1 s"),
        (("hang", {"seconds": 30, "stubborn": True}), "tool 'hang' was killed after 1 s"),
        (("delete_everything", {}), "tool 'delete_everything' is not on your list; you may call: add, raise_error"),
    ],
)
def test_a_failed_tool_call_is_an_error_result(shared_stack: Stack, call: tuple[str, Any], expected: str) -> None:
    task = run(shared_stack, call, ("add", {"a": 1, "b": 2}))
    assert task.summary().status == "completed"
    bad, good = task.history()[2].results
    assert bad.is_error
    assert expected in (bad.error or "")
    assert good.result == 3
    assert shared_stack.model.violations == []


def test_a_tool_of_a_module_that_is_not_allowed_fails_the_turn(shared_stack: Stack) -> None:
    team = parse_team(
        {
            "name": "hostile",
            "agents": [{"name": "worker", "prompt": "x", "tools": ["shell"]}],
            "tools": [{"name": "shell", "function": "os:system"}],
        }
    )
    task = run(shared_stack, team=team)
    assert (
        "module 'os' is not in ROBOCO_TOOL_MODULES, which names tests.support.tools_for_agents" in task.summary().reason
    )
    assert task.summary().status == "failed"
