"""An outage of a model server with real workers: tasks wait, are paused after the limit, and continue."""

from pathlib import Path

import pytest

from tests.integration.cli.shell import Desk
from tests.support.memory_ports.world import team_of
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

ECHO = team_of(
    agents=[{"name": "echo", "prompt": "echo"}], models={"m": {"model": "gpt-4o-mini", "outage_timeout": 10}}
)


@pytest.mark.parametrize("way", ["another task", "command"])
def test_tasks_wait_while_the_model_server_fails_and_then_continue(tmp_path: Path, way: str) -> None:
    with Stack(tmp_path) as stack:
        stack.model.script(lambda request: Reply(status=503, text="down for a moment"))
        task = stack.orchestrator.run(ECHO, "Hello.", task_id="delayed")
        wanted = "model 'gpt-4o-mini' is overloaded (503): down for a moment; next attempt in"
        until(lambda: wanted in waiting_reason(stack, "delayed"), 60, "the reason is shown")
        desk = Desk(stack, tmp_path)
        until(lambda: "is overloaded (503)" in desk.call("top", "--json"), 60, "the view of operators shows it")
        result = task.result(60)
        assert result.status == "paused"
        assert "s. The task continues when it is resumed, or when the model answers another task" in result.reason
        assert "task delayed is paused: " in stack.log("coordinator")

        stack.model.script(lambda request: Reply(text="hello again"))
        assert "is overloaded (503): down for a moment" in desk.call("why", "delayed")
        if way == "command":
            desk.call("resume", "delayed")
        else:
            assert stack.orchestrator.run(ECHO, "Hello.", task_id="another").result(60).status == "completed"
        until(lambda: stack.orchestrator.task("delayed").result(60).status == "completed", 60, "the task is resumed")
        assert [step.text for step in task.history()] == ["Hello.", "hello again"]


def waiting_reason(stack: Stack, task_id: str) -> str:
    """Return the reason for which the task waits, from the task store."""
    now = stack.orchestrator._engine.tasks.task_store.load(task_id, 1)
    return "" if now is None else now.position.reason
