"""roboco demo: a shipped team at work, for a first look."""

import sys
from dataclasses import dataclass
from importlib import resources
from shlex import join
from typing import Any

import click
import yaml

from roboco.adapters.team.file import team_from
from roboco.cli.interactive.run_team import Wish, run_team
from roboco.cli.terminal import options
from roboco.cli.terminal.screen import Screen
from roboco.domain.team.team import Team

EXAMPLES = resources.files("roboco.examples")


@dataclass(frozen=True)
class Example:
    """A team, with the prompt that a topic makes, the topic that it has by default, and what it needs."""

    prompt: str
    topic: str
    needs: str = ""


SHIPPED = {
    "demo": Example("Write a short paragraph about {topic}.", "the sea at night"),
    "research": Example(
        "What is the mean high water level at {topic}?", "Cuxhaven", "pip install 'roboco[mcp,sandbox]'"
    ),
}


@click.command()
@click.argument("topic", required=False)
@click.option("--team", "name", type=click.Choice(list(SHIPPED)), default="demo", show_default=True, help="Which team.")
@click.option("--list", "listed", is_flag=True, help="List the teams, and run none.")
@options.as_json
def demo(topic: str | None, name: str, listed: bool, as_json: bool) -> int:
    """Run a shipped team on TOPIC.

    It is a writer and a critic, unless another team is named. It needs no server and no key; with OPENAI_API_KEY it
    uses that. On a terminal Ctrl-C asks for a message and interrupts with it; twice stops.
    """
    if listed:
        _print(Screen(sys.stdout))
        return 0
    example = SHIPPED[name]
    team = shipped_team(name)
    allowed = tuple(join(server.command) for server in team.mcp_servers.values() if server.command)
    prompt = example.prompt.format(topic=topic or example.topic)
    return run_team(team, Wish(prompt, as_json=as_json, allowed=allowed, tools=_tool_modules(team)))


def shipped_team(name: str) -> Team:
    """The team of this name; its servers are started with the Python that runs this."""
    data: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    for server in data.get("mcp_servers", {}).values():
        server["command"] = [sys.executable, *server["command"][1:]]
    return team_from(data, f"{name}.yaml")


def _tool_modules(team: Team) -> tuple[str, ...]:
    """Return the modules of the team's tools, which a worker has to import."""
    return tuple({spec.function.partition(":")[0]: None for spec in team.tools})


def _print(screen: Screen) -> None:
    for name, example in SHIPPED.items():
        team = shipped_team(name)
        screen.line((name, "bold"), f"  {team.description}")
        needs = f"; needs {example.needs}" if example.needs else ""
        screen.line((f"    agents: {', '.join(agent.name for agent in team.agents)}{needs}", "dim"))
