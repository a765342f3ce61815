"""Workers without the module of a tool, or with another workspace, and the messages that users see."""

from pathlib import Path

import pytest

from roboco import Orchestrator, UsageError, parse_team
from tests.integration.cli.shell import Shell
from tests.support import forked
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import TOOLS, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

ADDS = parse_team(
    {
        "name": "adds",
        "agents": [{"name": "adder", "prompt": "add", "tools": ["add"]}],
        "tools": [{"name": "add", "function": "tests.support.tools_for_agents:add", "effect": "irreversible"}],
    }
)


def adds(request: Request) -> Reply:
    """Return a call of the tool, and after it a text."""
    return Reply(text="five") if request.count("assistant") else Reply(tool_calls=[("add", {"a": 2, "b": 3})])


def test_a_tool_that_its_worker_lacks_fails_its_call_at_once(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=("coordinator", "agents")) as stack:
        stack.model.script(adds)
        stack.start("tools", ROBOCO_TOOL_MODULES="")
        stack.wait_ready("tools")
        task = stack.orchestrator.run(ADDS, "2 + 3")
        assert task.result(60).status == "completed"
        [result] = task.history()[2].results
        assert (result.error or "").startswith("not run: tools worker 'celery@tools-")
        assert "install 'tests.support.tools_for_agents' where the tools workers run" in (result.error or "")
        listed = Shell(tmp_path, stack.environment).call_json("workers", "--json")["workers"]
        assert {one["pools"][0]: one["modules"] for one in listed} == {
            "coordinator": [TOOLS],
            "agents": [TOOLS],
            "tools": [],
        }


def test_a_worker_and_a_client_with_another_workspace_are_refused(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        stack.model.script(answer)
        other = f"file://{tmp_path}/elsewhere"
        environment = stack.environment | {"ROBOCO_WORKSPACE": other}
        worker = ("-A", "roboco.workers.tools", "worker")
        code, printed = forked.run_command(*worker, program="celery", env=environment, folder=tmp_path)
        assert code == 1
        wanted = f"uses the workspace {other} on "
        assert wanted in printed
        assert f", the others {stack.settings.workspace} on " in printed
        assert "set ROBOCO_WORKSPACE to the same workspace for all" in printed
        with Orchestrator(stack.settings.model_copy(update={"workspace": other})) as client:
            with pytest.raises(UsageError, match="this client uses the workspace"):
                client.run(ADDS, "2 + 3")
            assert list(client.tasks()) == []


def test_the_command_line_names_the_worker_that_a_task_waits_for(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=("coordinator",)) as stack:
        task = stack.orchestrator.run(ADDS, "2 + 3", task_id="alone")
        shell = Shell(tmp_path, stack.environment)
        wanted = "no agents worker is registered; start one: celery -A roboco.workers.agents worker"
        until(lambda: wanted in shell.call("why", task.task_id), 60, "the coordinator has registered")
        assert "no tools worker is registered" in shell.call("tasks")
        with pytest.raises(TimeoutError, match="no agents worker is registered"):
            task.result(20)  # the cause is looked for at a reading of the task, once ten seconds have passed
