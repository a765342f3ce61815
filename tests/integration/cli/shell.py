"""A user's folder with teams and tools, the command line beside running workers, and the replies of their model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from roboco import Task, parse_team
from roboco.cli import main
from tests.integration.cli.process import CommandProcess, CommandTerminal, environment
from tests.support.servers.model_server import ModelServer, Reply, Request
from tests.support.stack import Stack

TEAM = """
name: pair
collaboration_model: {type: sequential}
agents:
  - {name: writer, prompt: "You write, {{ context.tone }}.", tools: [add]}
  - {name: critic, prompt: You criticise.}
tools: [{name: add, function: "shop_tools:add", effect: pure}]
"""
TALK = """
name: talk
collaboration_model: {type: manual}
agents: [{name: host, prompt: You host.}]
"""
TOOLS = '''
from roboco import tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
CONTROL_CHARACTERS = "\x1b]0;owned\x07\x1b[2Jbright\x9b31m"


def answer(request: Request) -> Reply:
    """Return the reply: the writer adds and writes, the critic judges, the host echoes, "for ever" never ends."""
    if request.last_user == "for ever":
        return Reply(chunks=["on and "] * 5000, interval=0.02)
    if "short sentences" in request.system:  # the demo's writer
        return Reply(text="It rains. It drips.")
    if "host" in request.system:
        return Reply(text=f"you said {request.last_user}")
    if "criticise" in request.system:
        return Reply(text="a fine text", usage=(20, 3))
    if request.tool_results:
        return Reply(text=f"{CONTROL_CHARACTERS} the sum is {request.tool_results[0][1]}", usage=(10, 5))
    return Reply(tool_calls=[("add", {"a": 19, "b": 23})], usage=(10, 5))


@dataclass(frozen=True)
class Shell:
    """A user's folder with teams and tools, and the environment of their commands."""

    folder: Path
    env: dict[str, str]

    def start(self, *arguments: str) -> CommandProcess:
        """Start the command."""
        return CommandProcess(arguments, self.folder, self.env)

    def start_on_terminal(self, *arguments: str) -> CommandTerminal:
        """Start the command on a terminal."""
        return CommandTerminal(arguments, self.folder, self.env)

    def call(self, *arguments: str, code: int = 0) -> str:
        """Run the command within this process, which is quicker than `run`, and return its output."""
        result = CliRunner().invoke(main.commands, arguments, env=self.env, standalone_mode=False)
        assert result.exception is None, result.exception
        assert (result.return_value or 0) == code, result.output
        return result.output

    def call_json(self, *arguments: str) -> Any:
        """Run the command within this process, and return the JSON of its standard output. Warnings may precede it."""
        result = CliRunner().invoke(main.commands, arguments, env=self.env, standalone_mode=False)
        assert result.exception is None, result.exception
        return json.loads(result.stdout)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run the command as a process, check its exit code, and return its output."""
        with self.start(*arguments) as process:
            assert process.wait_for_exit() == code, process.output + process.errors
            return process.output


def create_shell(folder: Path, model: ModelServer) -> Shell:
    (folder / "team.yaml").write_text(TEAM)
    (folder / "talk.yaml").write_text(TALK)
    (folder / "shop_tools.py").write_text(TOOLS)
    (folder / "workers").mkdir()  # the shop has a package of this name
    (folder / "workers" / "__init__.py").write_text("raise ImportError('the wrong workers')")
    return Shell(folder, environment(folder, model.base_url, ROBOCO_TOOL_MODULES="shop_tools"))


DESK: dict[str, Any] = {
    "name": "desk",
    "models": {"plain": {"model": "scripted", "default": True}, "other": {"model": "scripted"}},
    "collaboration_model": {"type": "manual"},
    "agents": [{"name": "host", "prompt": "host", "tools": ["add"]}],
    "tools": [
        {"name": "add", "function": "tests.support.tools_for_agents:add", "effect": "pure", "approval": "required"}
    ],
}
LINE: dict[str, Any] = {
    "name": "line",
    "agents": [{"name": name, "prompt": name} for name in ("first", "second", "third")],
}
ScriptedCall = tuple[str, Mapping[str, object] | str]
SHOW = {"name": "client_show", "description": "Show it.", "input_schema": {"type": "object"}}


def desk_reply(request: Request) -> Reply:
    """Return the model's reply: "for ever" never ends, "add" and "show" call tools, other prompts are echoed."""
    prompt = request.last_user
    if prompt == "for ever":
        return Reply(chunks=["on and "] * 5000, interval=0.05)
    if request.tool_results:
        return Reply(text=f"it is {request.tool_results[0][1]}")
    if prompt in ("add", "show"):
        calls: dict[str, ScriptedCall] = {
            "add": ("add", {"a": 19, "b": 23}),
            "show": ("client_show", {"what": "a map"}),
        }
        return Reply(tool_calls=[calls[prompt]])
    return Reply(text=f"you said {prompt}")


@dataclass(frozen=True)
class Desk:
    """Running workers, and the command line beside them."""

    stack: Stack
    folder: Path

    def run(self, prompt: str, team: dict[str, Any] | None = None, **options: Any) -> Task:
        return self.stack.orchestrator.run(parse_team(team or DESK), prompt, **options)

    def call(self, *arguments: str, code: int = 0) -> str:
        """Run the command within this process, and return its output."""
        env = self.stack.settings.environment()
        result = CliRunner().invoke(main.commands, arguments, env=env, standalone_mode=False)
        assert result.exception is None, result.exception
        assert (result.return_value or 0) == code, result.output
        return result.output

    def start_on_terminal(self, *arguments: str) -> CommandTerminal:
        return CommandTerminal(arguments, self.folder, self.stack.environment)
