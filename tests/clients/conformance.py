"""Teams with the names of the tools that MCP's conformance suite calls, and the answers of their model.

Each tool of a gateway is a team or `roboco_task`, which `scripts/conformance.yml` keeps account of.
"""

import json
from pathlib import Path

from tests.support.gateway_openai import TEAMS
from tests.support.servers.model_server import Reply, Request

_PREFIX = "conformance "
_SUMS = {"confirm_delete": 1, "multi_input": 2, "input_required_result_elicitation": 1}
_SUMS |= {"input_required_result_tampered_state": 1, "input_required_result_capabilities": 1}
"""The number of calls that need an approval, by team."""
_NAMES = ("greet", "slow_compute", "failing_job", "protocol_error_job", *_SUMS)


def write_conformance_teams(folder: Path) -> None:
    """Write a file for each team."""
    for name in _NAMES:
        agent = {"name": "adder", "prompt": f"{_PREFIX}{name}", "tools": ["add"]}
        team = {**TEAMS["guarded"], "name": f"test_{name}" if "result" in name else name, "agents": [agent]}
        (folder / f"{team['name']}.json").write_text(json.dumps(team))


def conformance_answer(request: Request) -> Reply | None:
    """Return the answer of a team's model, or None if the request is of another team."""
    name = request.system.removeprefix(_PREFIX)
    if name == request.system:
        return None
    if request.tool_results:
        return Reply(text="done")
    if calls := _SUMS.get(name):
        return Reply(tool_calls=[("add", {"a": number, "b": 2}) for number in range(calls)])
    if name == "slow_compute":
        return Reply(chunks=["computing "] * (10 * json.loads(request.last_user)["seconds"] + 1), interval=0.1)
    return Reply(text="Hello") if name == "greet" else Reply(status=400, text="refused")
