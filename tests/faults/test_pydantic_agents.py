"""An agent of pydantic-ai on real workers: a kill repeats no request or call whose outcome is recorded."""

from pathlib import Path

import pytest

from roboco import parse_team
from tests.support import slow_pydantic_agent
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

MODULE = slow_pydantic_agent.__name__
TEAM = parse_team({"name": "shop", "agents": [{"name": "cashier", "pydantic_ai": f"{MODULE}:cashier"}]})


def test_a_kill_in_a_request_repeats_it_alone(tmp_path: Path) -> None:
    begun = tmp_path / slow_pydantic_agent.FILE
    with Stack(tmp_path, tool_modules=(MODULE,)) as stack:
        task = stack.orchestrator.run(TEAM, "Pay 3.")
        until(lambda: begun.exists() and "request an answer" in begun.read_text(), 120, "the last request has begun")
        stack.restart("tools")
        result = task.result(120)
    assert (result.status, result.text) == ("completed", "paid 3, thanks"), result.reason
    assert begun.read_text().splitlines() == ["request a call", "pay", *["request an answer"] * 2]
    agents = [step.agent_name for step in task.history()]
    assert agents == ["user", *["cashier", "tool_executor"] * 3, "cashier"]
