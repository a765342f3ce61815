"""roboco doctor: checks all parts of a deployment, and names a remedy for each that fails."""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator

import click

from roboco.adapters.extras import missing_packages
from roboco.adapters.sandbox.budget import Budget, read_budget
from roboco.cli.doctor.abreast import Group, abreast
from roboco.cli.doctor.broker import check_broker
from roboco.cli.doctor.check import Check
from roboco.cli.doctor.machine import (
    check_flower,
    check_limits,
    check_model,
    check_parts,
    check_python,
    check_sandbox,
)
from roboco.cli.doctor.redis import check_redis
from roboco.cli.doctor.servers import check_servers
from roboco.cli.doctor.teams import check_mcp, check_teams, check_tools, loaded_teams
from roboco.cli.doctor.webhooks import check_webhooks
from roboco.cli.doctor.workspace import check_workspace
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.progress import Progress
from roboco.cli.terminal.screen import Screen
from roboco.errors import UsageError
from roboco.settings import Settings, read_settings

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--models", is_flag=True, help="Also ask the servers of the models.")
@click.option("--flower", metavar="URL", help="Also check that Flower at this address asks for a password.")
@click.option(
    "--timeout", type=click.FloatRange(1, 600), default=30, show_default=True, help="Seconds for all checks together."
)
@options.as_json
def doctor(models: bool, flower: str | None, timeout: float, as_json: bool) -> int:
    """Check everything that a deployment needs.

    A finding is ok, a warning or a failure; the exit code is 1 if a check fails. Some checks are about this machine:
    run the command where the workers run. It starts the MCP servers of the teams in ROBOCO_TEAMS_DIR that
    ROBOCO_ALLOWED_MCP_SERVERS allows, asks them for their tools, and ends them.
    """
    screen = Screen(sys.stdout)
    progress = Progress(sys.stdout, screen.terminal and not as_json)
    checks: list[Check] = []
    for check in abreast(list(_groups(models, flower)), timeout, progress.show):
        progress.clear()
        checks.append(check)
        if not as_json:
            _print(screen, check)
    progress.clear()
    failed = any(check.state == "fail" for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": checks})
    return FAILED if failed else SUCCESS


def _groups(models: bool, flower: str | None) -> Iterator[Group]:
    """Yield all checks; those that wait for different servers are in different groups."""
    yield Group("python", lambda: [check_python()], here=True)
    budget = Budget()
    try:
        settings = read_settings()
    except UsageError as error:
        wrong = Check("settings", "fail", str(error), "correct the variable")
        yield Group("settings", lambda: [wrong], here=True)
    else:
        budget = read_budget(settings.sandbox_memory, 1)
        yield Group("settings", lambda: _of_settings(settings), here=True)
        yield Group("redis and broker", lambda: _servers(settings))
        yield Group("workspace", lambda: check_workspace(settings))
        yield Group("teams", lambda: _teams(settings), here=True)
        yield Group("mcp", lambda: _mcp(settings))
        if models:
            yield Group("models", lambda: _models(settings))
        yield Group("webhooks", lambda: check_webhooks(settings))
    if flower is not None:
        yield Group("flower", lambda: [check_flower(flower)])
    yield Group("sandbox", lambda: [check_sandbox(budget)])
    yield Group("model", lambda: [check_model(os.environ)], here=True)
    yield Group("local parts", check_parts)


def _of_settings(settings: Settings) -> Iterator[Check]:
    yield Check("settings", "ok", _shown())
    yield from check_limits(settings.agents_concurrency)
    yield _messages(settings)


def _messages(settings: Settings) -> Check:
    if settings.signing_keys:
        return Check("messages", "ok", f"signed, {len(settings.signing_keys)} keys")
    return Check("messages", "ok", "not signed: every client that can write to the broker can have workers act")


def _teams(settings: Settings) -> Iterator[Check]:
    yield from check_tools(settings)
    yield from check_teams(settings, dict(loaded_teams(settings)))


def _mcp(settings: Settings) -> Iterator[Check]:
    yield from check_mcp(settings)
    yield from check_servers(settings, (team for _, team in loaded_teams(settings)))


def _models(settings: Settings) -> Iterable[Check]:
    if missing := missing_packages("workers"):
        found = f"not asked: {', '.join(missing)} not installed here"
        return [Check("models", "fail", found, "pip install 'roboco[workers]'")]
    asked = importlib.import_module("roboco.cli.doctor.models")  # which imports openai
    checks: Iterable[Check] = asked.check_models(team for _, team in loaded_teams(settings))
    return checks


def _servers(settings: Settings) -> Iterator[Check]:
    reachable = False
    for check in check_redis(settings, bool(os.environ.get("ROBOCO_REDIS_URL"))):
        reachable = reachable or (check.name == "redis" and check.state == "ok")
        yield check
    if reachable or settings.broker_url is not None:
        yield from check_broker(settings)


def _shown() -> str:
    """Return the names of the variables that are set, without their values, which may hold passwords."""
    return ", ".join(sorted(name for name in os.environ if name.startswith("ROBOCO_"))) or "no ROBOCO_* is set"


def _print(screen: Screen, check: Check) -> None:
    screen.line((f"{check.state:<5}", _COLOURS[check.state]), f"{check.name:<25} {check.found}")
    if check.todo:
        screen.line((f"      {'':<25}→ {check.todo}", "dim"))
