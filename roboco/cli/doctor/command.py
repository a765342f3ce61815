"""roboco doctor: checks all parts of a deployment, and names a remedy for each that fails."""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import click

from roboco.cli.doctor.broker import check_broker
from roboco.cli.doctor.check import CheckResult, print_check
from roboco.cli.doctor.machine import (
    check_flower,
    check_limits,
    check_local_servers,
    check_meaning,
    check_model,
    check_sandbox,
)
from roboco.cli.doctor.parallel_checks import CheckGroup, run_parallel
from roboco.cli.doctor.redis import check_redis
from roboco.cli.doctor.server_tools import check_servers
from roboco.cli.doctor.teams import check_mcp, check_teams, check_tools, loaded_teams
from roboco.cli.doctor.webhooks import check_webhooks
from roboco.cli.doctor.workspace import check_workspace
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.client.team_lookup import resolve_team
from roboco.errors import UsageError
from roboco.process.extras import missing_packages
from roboco.settings import Settings, load_settings
from roboco.tools.sandbox.budget import MemoryBudget, read_budget

NAME_WIDTH = 25
"""Columns of the names of checks."""


@click.command()
@click.option(
    "--models",
    metavar="[TEAM]",
    is_flag=False,
    flag_value="",
    help="Also ask the servers of the models; with a team, call each of its profiles for real.",
)
@click.option("--flower", metavar="URL", help="Also check that Flower at this address asks for a password.")
@click.option(
    "--timeout", type=click.FloatRange(1, 600), default=30, show_default=True, help="Seconds for all checks together."
)
@options.as_json
def doctor(models: str | None, flower: str | None, timeout: float, as_json: bool) -> int:
    """Check everything that a deployment needs.

    A finding is ok, a warning or a failure; the exit code is 1 if a check fails. Some checks are about this machine:
    run the command where the workers run. It starts the MCP servers of the teams in ROBOCO_TEAMS_DIR that
    mcp_servers of ROBOCO_ALLOWLIST allows, asks them for their tools, and ends them.
    """
    screen = Screen(sys.stdout)
    checks: list[CheckResult] = []

    def show_waiting(names: Sequence[str]) -> None:
        if names and not as_json:
            screen.status(f"waiting for {', '.join(names)}")

    for check in run_parallel(list(_check_groups(models, flower)), timeout, show_waiting):
        checks.append(check)
        if not as_json:
            print_check(screen, check, NAME_WIDTH)
    screen.status("")
    failed = any(check.state == "fail" for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": checks})
    return FAILED if failed else SUCCESS


def _check_groups(models: str | None, flower: str | None) -> Iterator[CheckGroup]:
    """Yield all checks; those that wait for different servers are in different groups."""
    budget = MemoryBudget()
    try:
        settings = load_settings()
    except UsageError as error:
        wrong = CheckResult("settings", "fail", str(error), "correct the variable")
        yield CheckGroup("settings", lambda: [wrong], in_caller_thread=True)
    else:
        budget = read_budget(settings.sandbox_memory, 1)
        yield CheckGroup("settings", lambda: _check_settings(settings), in_caller_thread=True)
        if settings.broker_url is None:
            yield CheckGroup("redis", lambda: _check_only_server(settings))
        else:
            yield CheckGroup("redis", lambda: _check_redis(settings))
            yield CheckGroup("broker", lambda: check_broker(settings))
        yield CheckGroup("workspace", lambda: check_workspace(settings))
        yield CheckGroup("teams", lambda: _check_teams(settings), in_caller_thread=True)
        yield CheckGroup("mcp", lambda: _check_mcp(settings))
        if models is not None:
            yield CheckGroup("models", lambda: _check_models(settings, models))
        yield CheckGroup("webhooks", lambda: check_webhooks(settings))
    if flower is not None:
        yield CheckGroup("flower", lambda: [check_flower(flower)])
    yield CheckGroup("sandbox", lambda: [check_sandbox(budget)])
    yield CheckGroup("model", lambda: [check_model(os.environ)], in_caller_thread=True)
    if not os.environ.get("ROBOCO_REDIS_URL"):  # a laptop, and no deployment
        yield CheckGroup("local parts", check_local_servers)


def _check_settings(settings: Settings) -> Iterator[CheckResult]:
    names = sorted(name for name in os.environ if name.startswith("ROBOCO_"))  # a value may hold a password
    yield CheckResult("settings", "ok", ", ".join(names) or "no ROBOCO_* is set")
    yield from check_limits(settings.agents_concurrency)
    yield check_meaning(settings.embeddings_model)


def _check_teams(settings: Settings) -> Iterator[CheckResult]:
    yield from check_tools(settings)
    yield from check_teams(settings, dict(loaded_teams(settings)))


def _check_mcp(settings: Settings) -> Iterator[CheckResult]:
    yield from check_mcp(settings)
    yield from check_servers(settings, (team for _, team in loaded_teams(settings)))


def _check_models(settings: Settings, team: str) -> Iterable[CheckResult]:
    """Check the models of a team by calls, or without one, whether the servers of all teams' models have them."""
    if missing := missing_packages("workers"):
        found = f"not asked: {', '.join(missing)} not installed here"
        return [CheckResult("models", "fail", found, "pip install 'roboco[workers]'")]
    if team:
        return _called_models(settings, team)
    asked = importlib.import_module("roboco.cli.doctor.models")  # which imports openai
    checks: Iterable[CheckResult] = asked.check_models(
        (team for _, team in loaded_teams(settings)), settings.allowlist.model_servers
    )
    return checks


def _called_models(settings: Settings, team: str) -> Iterator[CheckResult]:
    try:
        found = resolve_team(settings, team)
    except UsageError as error:
        yield CheckResult("models", "fail", str(error), "correct the team")
        return
    calls = importlib.import_module("roboco.cli.doctor.model_calls")  # which imports the packages that call models
    for result in calls.check_profiles(settings, found):
        yield from (replace(check, name=f"model {result.profile}, {check.name}") for check in result.checks)


def _check_redis(settings: Settings) -> Iterator[CheckResult]:
    return check_redis(settings, bool(os.environ.get("ROBOCO_REDIS_URL")))


def _check_only_server(settings: Settings) -> Iterator[CheckResult]:
    """Check Redis. If it answers, check it as the broker, too."""
    reachable = False
    for check in _check_redis(settings):
        reachable = reachable or (check.name == "redis" and check.state == "ok")
        yield check
    if reachable:
        yield from check_broker(settings)
