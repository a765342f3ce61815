"""roboco models: the model profiles of a team, and a check of each by real calls."""

import importlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import click
import yaml

from roboco.cli.doctor.check import print_check
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import print_entries
from roboco.client.orchestrator import Orchestrator
from roboco.client.team_lookup import resolve_team
from roboco.domain.team.model_offer import ModelProfileInfo
from roboco.process.extras import require_extra
from roboco.settings import load_settings


class _Models(click.Group):
    """The commands. Without the name of one, the first argument is a team."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the command `list` if the arguments name none."""
        named = args and (args[0] in self.commands or args[0] in self.get_help_option_names(ctx))
        return super().parse_args(ctx, args if named else ["list", *args])


@click.group(cls=_Models)
def models() -> None:
    """List the model profiles of a team, or check them by real calls."""


@models.command("list")
@click.argument("team")
@options.as_json
def list_models(team: str, as_json: bool) -> None:
    """List the model profiles of a team, for --model.

    TEAM is the path of a team file, or the name of one in ROBOCO_TEAMS_DIR.
    """
    with Orchestrator(load_settings()) as orchestrator:
        profiles = orchestrator.models(team)
    headings = ("profile", "model", "label", "description")
    print_entries(as_json, profiles, headings, _cells, "the team declares no model profiles")


@models.command()
@click.argument("team")
@click.option("--profile", "only", metavar="NAME", multiple=True, help="Check this profile only; may be repeated.")
@options.as_json
def check(team: str, only: tuple[str, ...], as_json: bool) -> int:
    """Call each profile of a team for real, which costs some hundred tokens each.

    A text, a tool call and its result, a reply with a limit, and an interrupt. The calls are made from this process, by
    the rules of an agents worker: model_servers of ROBOCO_ALLOWLIST and the variables with the keys are those of this
    command, and agents workers need the same. The exit code is 1 if a check fails.
    """
    require_extra("workers", "roboco models check")
    settings = load_settings()
    found = resolve_team(settings, team)
    logging.getLogger("roboco.model").setLevel(logging.ERROR)  # what it would log is part of the output
    calls = importlib.import_module("roboco.cli.doctor.model_calls")  # which imports the packages that call models
    screen = Screen(sys.stdout)
    results: list[Any] = []
    checks: Iterator[Any] = calls.check_profiles(settings, found, only)
    if not as_json:
        screen.status(f"waiting for the models of team {found.name}")
    for result in checks:
        results.append(result)
        if not as_json:
            _print_check(screen, result)
    screen.status("")
    works = all(result.works for result in results)
    if as_json:
        print_json({"ok": works, "profiles": results})
    return SUCCESS if works else FAILED


def _print_check(screen: Screen, result: Any) -> None:
    screen.line((f"{result.profile}", "bold"), f"  {result.model}")
    for check in result.checks:
        print_check(screen, check, 10, "  ")
    for lesson in result.learned:
        screen.line(f"  learned: this process {lesson}")
    usage = f"{result.usage['tokens_in']} tokens in, {result.usage['tokens_out']} out"
    estimated = ", in part by an estimate" if result.usage.get("estimated") else ""
    cost = "the profile has no prices" if result.cost is None else f"cost {result.cost:.6f}"
    screen.line(f"  used: {usage}{estimated}; {cost}")
    if result.settings:
        written = yaml.safe_dump(result.settings, default_flow_style=True, sort_keys=False).strip()
        screen.line(f"  write into the profile: {written.strip('{}')}")


def _cells(profile: ModelProfileInfo) -> Iterator[str]:
    name = f"{profile.id} (default)" if profile.is_default else profile.id
    cells = (name, profile.model, "" if profile.label == profile.id else profile.label, profile.description)
    return (one_line(cell, 160) for cell in cells)
