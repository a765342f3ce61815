"""roboco doctor: is everything there, and what is to be done where it is not?"""

import json
import os
import sys
from collections.abc import Iterator

import click

from roboco.cli import options
from roboco.cli.check import Check
from roboco.cli.check_machine import check_model, check_parts, check_python
from roboco.cli.check_servers import check_broker, check_redis, check_workspace
from roboco.cli.screen import Screen
from roboco.errors import UsageError
from roboco.settings import Settings, read_settings

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@options.as_json
def doctor(as_json: bool) -> int:
    """Check settings and servers, and say what to do.

    The exit code is 1 if something fails.
    """
    screen = Screen(sys.stdout)
    checks: list[Check] = []
    for check in _checks():
        checks.append(check)
        if not as_json:
            _print(screen, check)
    failed = any(check.state == "fail" for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": not failed, "checks": [check.record() for check in checks]}, indent=2))
    return 1 if failed else 0


def _checks() -> Iterator[Check]:
    yield check_python()
    try:
        settings = read_settings()
    except UsageError as error:
        yield Check("settings", "fail", str(error), "correct the variable")
    else:
        yield Check("settings", "ok", _shown())
        yield from _servers(settings)
    yield check_model(os.environ)
    yield from check_parts()


def _servers(settings: Settings) -> Iterator[Check]:
    reachable = False
    for check in check_redis(settings, bool(os.environ.get("ROBOCO_REDIS_URL"))):
        reachable = reachable or (check.name == "redis" and check.state == "ok")
        yield check
    if reachable or settings.broker_url is not None:
        yield from check_broker(settings)
    yield from check_workspace(settings)


def _shown() -> str:
    """The variables that are set; their values may hold passwords."""
    return ", ".join(sorted(name for name in os.environ if name.startswith("ROBOCO_"))) or "no ROBOCO_* is set"


def _print(screen: Screen, check: Check) -> None:
    screen.line((f"{check.state:<5}", _COLOURS[check.state]), f"{check.name:<25} {check.found}")
    if check.todo:
        screen.line((f"      {'':<25}→ {check.todo}", "dim"))
