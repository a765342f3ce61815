"""`roboco mcp tools`, `roboco validate` and `roboco doctor` with MCP servers that are real processes."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from roboco import Settings
from roboco.allowlist import Allowlist
from roboco.cli.doctor.server_tools import check_servers
from roboco.cli.main import commands
from roboco.errors import UsageError
from roboco.team_files.file import load_team
from tests.support.mcp_servers import HOSTILE, SHOP

pytestmark = pytest.mark.slow

PLAIN = (*HOSTILE, "plain")
DEAD = (sys.executable, "-c", "import os; import sys; sys.exit('no licence for ' + os.environ['SHOP_TOKEN'])")
SECRET = "secret-of-the-shop"


@pytest.fixture(autouse=True)
def _worker_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set the variables of a tools worker."""
    monkeypatch.chdir(tmp_path)
    allowlist = Allowlist(mcp_servers=tuple(map(shlex.join, (PLAIN, SHOP, DEAD))), mcp_env=("SHOP_TOKEN",))
    monkeypatch.setenv("ROBOCO_ALLOWLIST", allowlist.model_dump_json())
    monkeypatch.setenv("ROBOCO_MCP_SANDBOX", "off")
    monkeypatch.setenv("SHOP_TOKEN", SECRET)


def write_team(name: str = "desk.yaml", **servers: dict[str, Any]) -> Path:
    """Write a team file with these servers, and return its path."""
    declared = {server: {"command": list(PLAIN)} | fields for server, fields in servers.items()}
    team = {"name": "desk", "agents": [{"name": "clerk", "prompt": "x"}], "mcp_servers": declared}
    Path(name).write_text(yaml.safe_dump(team))
    return Path(name)


def call(*words: str) -> Result:
    return CliRunner().invoke(commands, words, standalone_mode=False)


def test_tools_of_a_server_are_listed_with_their_parameters() -> None:
    write_team(shop={"command": list(SHOP), "tools": {"search": {"description": "Look."}}})
    done = call("mcp", "tools", "shop", "--team", "desk.yaml")
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[:3] == [
        "tool agents call effect parameters description",
        "search shop_search pure query: string, limit?: integer Look.",
        "reserve - idempotent article: string Reserve an article.",
    ]
    assert done.return_value == 0


def test_no_server_is_started_that_the_operator_does_not_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOCO_ALLOWLIST", '{"mcp_servers": ["python -m other"]}')
    write_team(shop={"command": ["sh", "-c", "touch started; cat"]})
    with pytest.raises(UsageError, match="is not allowed on this worker"):
        _raise_error(call("mcp", "tools", "shop", "--team", "desk.yaml"))
    assert "is not allowed" in call("validate", "desk.yaml").stderr
    assert not Path("started").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux'")
def test_command_that_starts_servers_is_not_dumpable() -> None:
    """A server without sandbox runs as the user of the command, but reads neither its environment nor its memory."""
    write_team(shop={})
    script = (
        "import ctypes; from click.testing import CliRunner; from roboco.cli.main import commands\n"
        "print(CliRunner().invoke(commands, ['validate', 'desk.yaml']).output, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=True)
    assert done.stdout == "desk.yaml: team 'desk' is valid: sequential, agents clerk\n 0\n"


def test_doctor_checks_each_server_of_the_teams() -> None:
    team = load_team(
        write_team(
            good={},
            typo={"tools": ["won"]},
            dead={"command": list(DEAD), "env": ["SHOP_TOKEN"], "tools": ["a"]},
            odd={"prefix": "p" * 62},
            other={"command": ["sh"]},
        )
    )
    settings = Settings(
        allowlist=Allowlist(mcp_servers=tuple(map(shlex.join, (PLAIN, DEAD))), mcp_env=("SHOP_TOKEN",)),
        mcp_sandbox="off",
    )
    found = {check.name: check for check in check_servers(settings, [team, UsageError("no team")])}
    assert {name: check.state for name, check in found.items()} == {
        "mcp desk/good": "ok",
        "mcp desk/typo": "fail",
        "mcp desk/dead": "fail",
        "mcp desk/odd": "warn",
        "mcp desk/other": "fail",
    }
    assert found["mcp desk/good"].found == "lists 1 tool: one"
    assert "has no tool 'won'" in found["mcp desk/typo"].found
    assert "exit status 1" in found["mcp desk/dead"].found
    assert "1 tool is left out: 'one' (no name is left for it" in found["mcp desk/odd"].found
    assert all(check.todo for check in found.values() if check.state != "ok")
    assert SECRET not in str(found)
    (elsewhere,) = check_servers(Settings(), [load_team(write_team(good={}))])
    assert (elsewhere.state, "is not allowed" in elsewhere.found) == ("warn", True)


def _raise_error(done: Result) -> None:
    """Raise the error with which a command ended."""
    assert done.exception is not None
    raise done.exception
