"""Failures of models, tools and messages: the history records the reason and stays valid."""

from typing import Any

import pytest

from roboco import Task, UsageError, parse_team
from tests.integration.cli.shell import Desk
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

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


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(status=401, text="bad key"), "auth: worker: model 'scripted' refuses the key in OPENAI_API_KEY (401)"),
        (
            Reply(status=404, text="no such model"),
            "not_found: worker: model 'scripted': the server does not have the model (404): no such model",
        ),
        (Reply(status=400, text="too long"), "status: worker: model 'scripted' answers 400: too long"),
    ],
)
def test_a_refusal_by_the_model_server_fails_the_task_with_the_reason(
    folder_stack: Stack, reply: Reply, expected: str
) -> None:
    folder_stack.model.fail_next(1, reply)
    task = run(folder_stack)
    assert failure_of(task).startswith(expected)
    assert "test-key" not in str(task.history())
    desk = Desk(folder_stack, folder_stack.folder)
    assert expected.partition(": ")[2] in desk.call("why", task.task_id)
    continued = folder_stack.orchestrator.task(desk.call("fork", task.task_id).strip())
    assert continued.result(60).status == "completed"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_turn_is_retried_if_the_model_server_is_busy(folder_stack: Stack, status: int) -> None:
    folder_stack.model.fail_next(1, Reply(status=status, text="later"))
    task = run(folder_stack)
    assert task.summary().status == "completed"
    assert task.history()[-1].metadata["attempt"] == 1


def test_a_turn_is_retried_if_the_stream_breaks_off(folder_stack: Stack) -> None:
    folder_stack.model.fail_next(1, Reply(text="half an answer that", break_after=2))
    task = run(folder_stack)
    assert task.summary().status == "completed"
    assert task.history()[-1].text == "done"
    assert task.history()[-1].metadata["attempt"] == 2
    assert [item.type for item in task.stream()].count("event_turn_restart") == 1


def test_a_turn_is_retried_if_the_stream_falls_silent(folder_stack: Stack) -> None:
    folder_stack.model.fail_next(1, Reply(text="half an answer", hang_after=1))
    task = run(folder_stack, team=solo(idle_timeout=0.5))
    assert task.summary().status == "completed"
    assert task.history()[-1].metadata["attempt"] == 2


def test_a_key_variable_that_the_operator_does_not_allow_is_not_sent(folder_stack: Stack) -> None:
    before = len(folder_stack.model.requests)
    task = run(folder_stack, team=solo(base_url=None, api_key_env="NOT_THERE"))
    assert task.summary().status == "failed"
    assert "name 'NOT_THERE' in model_servers of ROBOCO_ALLOWLIST" in task.summary().reason
    assert len(folder_stack.model.requests) == before


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("add", {"a": 1, "b": "two"}), "wrong arguments: b: Input should be a valid integer"),
        (("add", {"a": 1}), "wrong arguments: b: Field required"),
        (("add", {"a": 1, "b": 2, "c": 3}), "parameters are: a, b"),
        (("raise_error", {"message": "no luck"}), "ValueError: no luck"),
        (("hang", {"seconds": 30}), "tool 'hang' did not end within its 1 s"),
        (("hang", {"seconds": 30, "stubborn": True}), "tool 'hang' was killed after 1 s"),
        (("return_object", {}), "returned a value of type object that is not JSON"),
        (("delete_everything", {}), "tool 'delete_everything' is not on your list; you may call: add, raise_error"),
        (("artifact_read", {"uri": "../../team.json"}), "is not allowed: a name has"),
        (("artifact_read", {"uri": "file://artifacts/none.md"}), "no artifact 'none.md' in this task; artifacts: none"),
    ],
)
def test_a_failed_tool_call_is_an_error_result(folder_stack: Stack, call: tuple[str, Any], expected: str) -> None:
    task = run(folder_stack, call, ("add", {"a": 1, "b": 2}))
    assert task.summary().status == "completed"
    bad, good = task.history()[2].results
    assert bad.is_error
    assert expected in (bad.error or "")
    assert good.result == 3
    assert folder_stack.model.violations == []


@pytest.mark.parametrize("arguments", ['{"a": 1,', "[1, 2]", "nonsense"])
def test_invalid_json_in_tool_arguments_is_an_error_result(folder_stack: Stack, arguments: str) -> None:
    task = run(folder_stack, ("add", arguments))
    assert task.summary().status == "completed"
    assert "the arguments are" in (task.history()[2].results[0].error or "")


def test_large_result_becomes_an_artifact(folder_stack: Stack) -> None:
    task = run(folder_stack, ("large_text", {"size": 100_000}))
    step = task.history()[2]
    assert len(step.results[0].result) < 3000
    assert step.artifacts[0].size == 100_000
    assert task.artifact(step.artifacts[0].name) == b"x" * 100_000


def test_a_tool_of_a_module_that_is_not_allowed_pauses_the_task(folder_stack: Stack) -> None:
    team = parse_team(
        {
            "name": "hostile",
            "agents": [{"name": "worker", "prompt": "x", "tools": ["shell"]}],
            "tools": [{"name": "shell", "function": "os:system"}],
        }
    )
    task = run(folder_stack, team=team)
    assert (
        "module 'os' is not in ROBOCO_TOOL_MODULES, which names tests.support.tools_for_agents" in task.summary().reason
    )
    assert task.summary().status == "paused"
    task.stop()


def test_limit_of_steps_ends_the_task(folder_stack: Stack) -> None:
    team = solo().model_copy(update={"limits": solo().limits.model_copy(update={"max_steps": 3})})
    assert failure_of(run(folder_stack, ("add", {"a": 1, "b": 2}), team=team)) == (
        "limit: the task has 3 steps, max_steps is 3"
    )


def test_a_stop_during_a_turn_closes_the_connection(folder_stack: Stack) -> None:
    folder_stack.model.script(lambda request: Reply(text="word " * 1000, interval=0.05))
    task = folder_stack.orchestrator.run(solo(), "Go.")
    for item in task.stream():
        if item.type == "text_part_delta":
            break
    task.stop("enough")
    result = task.result(60)
    assert (result.status, result.reason) == ("cancelled", "enough")
    folder_stack.model.wait_for(lambda records: records[-1].client_disconnected_at is not None, 60)
    folder_stack.model.script(answer)


def test_a_stop_during_a_tool_call_leaves_a_valid_history(folder_stack: Stack) -> None:
    folder_stack.model.script(lambda request: Reply(tool_calls=[("hang", {"seconds": 10}), ("add", {"a": 1, "b": 1})]))
    task = folder_stack.orchestrator.run(solo(timeout=20), "Go.")
    for item in task.stream():
        if item.type == "tool_result_part":
            break
    task.stop()
    assert task.result(60).status == "cancelled"
    called, answered, stopped = task.history()[1:4]
    assert [result.tool_call_id for result in answered.results] == [call.id for call in called.calls]
    assert answered.results[0].error == "not finished: stopped by the user"
    assert stopped.error is not None
    folder_stack.model.script(answer)


def test_message_to_an_ended_task_is_refused(folder_stack: Stack) -> None:
    task = run(folder_stack)
    until(lambda: task.summary().status.ended, 60, "the task has ended")
    with pytest.raises(UsageError, match="has ended"):
        task.send("hello?")
    task.stop()
    assert task.summary().status == "completed"
