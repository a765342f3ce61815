"""roboco demo: a shipped team at work, for a first look."""

import os
import sys
from dataclasses import dataclass
from importlib import resources
from shlex import join
from typing import Any

import click
import yaml

from roboco.cli.commands.init import is_temporary, on_shell_path
from roboco.cli.interactive.run_team import RunOptions, run_team
from roboco.cli.terminal import options
from roboco.cli.terminal.screen import Screen
from roboco.domain.team.team import Team
from roboco.process.extras import require_extra
from roboco.team_files.file import parse_team

EXAMPLES_FOLDER = resources.files("roboco.examples")


@dataclass(frozen=True)
class Example:
    """A shipped team."""

    prompt: str
    """The prompt, with a place for the topic."""
    topic: str
    """The default topic."""
    extras: tuple[str, ...] = ()
    """The extras that the team needs besides `local`."""

    @property
    def install(self) -> str:
        """The extras to install, as pip wants them."""
        return ",".join(("local", *self.extras))


SHIPPED_TEAMS = {
    "demo": Example("Write a short paragraph about {topic}.", "the sea at night"),
    "research": Example("Which high water levels were measured at {topic}?", "Cuxhaven", ("mcp", "sandbox")),
}


@click.command()
@click.argument("topic", required=False)
@click.option(
    "--team", "name", type=click.Choice(list(SHIPPED_TEAMS)), default="demo", show_default=True, help="Which team."
)
@click.option("--list", "listed", is_flag=True, help="List the teams, and run none.")
@options.web
@options.as_json
def demo(topic: str | None, name: str, listed: bool, web: bool, as_json: bool) -> int:
    """Run a shipped team on TOPIC.

    It is a writer and a critic, unless another team is named. It needs no server and no key, and uses OPENAI_API_KEY if
    it is set. On a terminal, Ctrl-C asks for a message and interrupts the team with it; twice stops the task.

    The exit code is 1 if the task does not complete, also if it waits.
    """
    if listed:
        _print_teams(Screen(sys.stdout))
        return 0
    example = SHIPPED_TEAMS[name]
    if "mcp" in example.extras:
        require_extra("mcp", f"team {name!r}", example.install)
    team = shipped_team(name)
    allowed = tuple(join(server.command) for server in team.mcp_servers.values() if server.command)
    prompt = example.prompt.format(topic=topic or example.topic)
    code = run_team(team, RunOptions(prompt, as_json=as_json, allowed=allowed, web=web, must_complete=True))
    if code == 0 and not as_json:
        Screen(sys.stdout).paragraph((f"make your own: {_init_command()}", "dim"))
    return code


def shipped_team(name: str) -> Team:
    """Return the team of this name. Its MCP servers start with the Python of this process."""
    data: dict[str, Any] = yaml.safe_load((EXAMPLES_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    for server in data.get("mcp_servers", {}).values():
        server["command"] = [sys.executable, *server["command"][1:]]
    return parse_team(data, f"{name}.yaml")


def _init_command() -> str:
    """Return the command that creates a project, as the user's shell finds this program."""
    if on_shell_path():
        return "roboco init my-team"
    if is_temporary():
        return "the command that you typed, with `init my-team` in place of `demo`"
    program = os.path.relpath(sys.argv[0])
    return f"{os.path.abspath(program) if program.startswith(os.pardir) else program} init my-team"


def _print_teams(screen: Screen) -> None:
    for name, example in SHIPPED_TEAMS.items():
        team = shipped_team(name)
        screen.line((name, "bold"), f"  {team.description}")
        needs = f"; needs pip install 'roboco[{example.install}]'" if example.extras else ""
        screen.line((f"    agents: {', '.join(agent.name for agent in team.agents)}{needs}", "dim"))
