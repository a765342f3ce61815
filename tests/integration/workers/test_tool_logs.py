"""The log of a tools worker about a tool that prints and raises, in Celery's text format."""

from pathlib import Path

import pytest

from roboco.team_files.file import parse_team
from tests.integration.cli.shell import Desk
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

SECRET = "canary-of-the-shop"
TEAM = {
    "name": "desk",
    "agents": [{"name": "clerk", "prompt": "Work.", "tools": ["refund"]}],
    "tools": [{"name": "refund", "function": "tests.support.tools_for_agents:print_and_raise", "effect": "pure"}],
}


def answer(request: Request) -> Reply:
    if any(message["role"] == "tool" for message in request.messages):
        return Reply(text=f"The tool says: {request.messages[-1]['content']}")
    return Reply(tool_calls=[("refund", {"line": "refunding", "variable": "SHOP_TOKEN"})])


def test_output_and_exception_of_a_tool_are_logged_with_task_and_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    with Stack(tmp_path) as stack:
        stack.model.script(answer)
        task = stack.orchestrator.run(parse_team(TEAM), "go", task_id="order-17")
        assert task.result(60).text == "The tool says: error: ValueError: refused with ***"
        until(lambda: "the tool raised" in stack.log("tools"), 60, "the exception is logged")
        log = stack.log("tools")
        assert "] tool 'refund' of task order-17, stdout: refunding ***\n" in log
        assert 'tools_for_agents.py", line ' in log
        assert "\n  ValueError: refused with ***\n" in log
        assert SECRET not in log
        shown = Desk(stack, tmp_path).call("show", "order-17")
        assert "ValueError: refused with ***" in shown
        assert 'tools_for_agents.py", line ' in shown
