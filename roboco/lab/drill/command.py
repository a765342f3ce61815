"""roboco drill: run a team under faults, and check the promises."""

import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import click

from roboco.cli.doctor.server_tools import fetch_tools, team_servers
from roboco.cli.doctor.teams import missing_functions
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.client.orchestrator import Orchestrator
from roboco.domain.team.team import Team
from roboco.errors import InvalidTeam, TransientError, UsageError
from roboco.lab.drill.drilled_team import Replacement, all_teams, check_real_tools, model_addresses
from roboco.lab.drill.faults import FAULTS, Fault, select
from roboco.lab.drill.promises import ObservedRun
from roboco.lab.drill.replies import ScriptedModel, agent_of
from roboco.lab.drill.report import DrillReport, render_html, tool_notes
from roboco.lab.drill.result import DrillResult
from roboco.lab.drill.run import DrillPlan, DrillRun
from roboco.lab.drill.scene import Baseline
from roboco.lab.drill.session import run_faults
from roboco.lab.drill.stack import DrillStack
from roboco.lab.drill.stand_ins import MODULE, write_plans
from roboco.lab.drill.weaknesses import find_weaknesses
from roboco.model.allowlist import BASE_URL_VARIABLE, DEFAULT_KEY_VARIABLE
from roboco.settings import load_settings
from roboco.team_files.file import load_team
from roboco.tools.function_loader import FunctionLoader

SCRIPTED: Final = "scripted"
REAL: Final = "real"
_DEFAULT_SERVER: Final = "https://api.openai.com/v1"
_NO_STORE: Final = "the store is a folder: faults of the store need an S3 server, pip install 'roboco[dev-server]'"


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.argument("prompt", default="Do what your team is for, with sample data.")
@click.option("--list", "listed", is_flag=True, help="List the faults, and run none.")
@click.option("--only", metavar="PATTERN", multiple=True, help="Faults by name, pattern or group; may be repeated.")
@click.option(
    "--model",
    metavar="MODEL",
    default=SCRIPTED,
    show_default=True,
    help="scripted, real (that of each agent), or a profile of the team, which is a real one.",
)
@click.option(
    "--real-tools",
    metavar="NAME,...",
    default="",
    help="Tools, or mcp:SERVER, that really run. All others have stand-ins.",
)
@click.option("--tasks", type=click.IntRange(1, 20), default=1, show_default=True, help="Tasks under each fault.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the scripted arguments and choices.")
@click.option(
    "--lease", type=click.FloatRange(1, 60), default=2.0, show_default=True, help="Seconds of a lease in the drill."
)
@click.option(
    "--time-limit",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=600,
    show_default=True,
    help="No fault begins after this time.",
)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the report into this file too.")
@click.option("--strict", is_flag=True, help="Fail at weaknesses, and at faults that do not strike.")
@options.context
@options.as_json
def drill(
    file: Path | None, listed: bool, only: tuple[str, ...], as_json: bool, html: Path | None, strict: bool, **given: Any
) -> int:
    """Run a team under faults, in its own stack, and check the promises.

    Workers are killed, suspended and terminated, Redis loses its data, the store and the model fail, tools hang and
    die, and a user interrupts and stops the task. The command needs no server and no key: a scripted model answers, and
    stand-ins run in place of the team's tools. A stand-in counts executions and has no effect.

    The exit code is 0 if all promises held, and 1 if one was broken or nothing was shown. `roboco docs drill` has more.
    """
    logging.getLogger("roboco").addHandler(logging.NullHandler())  # warnings of a missing worker: the drill killed it
    faults = select(only)
    if listed:
        _print_faults(Screen(sys.stdout), faults, as_json)
        return SUCCESS
    if file is None:
        raise UsageError("name a team file, or --list")
    if html is not None:
        _check_writable(html)
    report = DrillReport(Screen(sys.stderr if as_json else sys.stdout), len(faults))
    result, signalled = _Drill(file, report, given).run(faults)
    report.summary(result, strict)
    if html is not None:
        html.write_text(render_html(result, strict), encoding="utf-8")
        report.note(f"report: {html}")
    if as_json:
        print_json(result.record(strict))
    if signalled is not None:
        return signalled.exit_code
    return FAILED if result.failed(strict) else SUCCESS


class _Drill:
    """One call of the command. `given` has the options that concern the runs."""

    def __init__(self, file: Path, report: DrillReport, given: dict[str, Any]) -> None:
        self._given = given
        self._report = report
        self._settings = load_settings()
        self._team = load_team(file)
        if mistakes := tuple(missing_functions(self._team, self._settings)):
            raise InvalidTeam(str(file), mistakes)
        if given["model"] not in (SCRIPTED, REAL):
            self._team = self._team.with_profile(given["model"])
        self._functions = FunctionLoader(self._settings.tool_modules)
        self._result = DrillResult(self._team.name, given["seed"], given["model"])
        named = (name.strip() for name in given["real_tools"].split(","))
        self._real_tools = check_real_tools(self._team, filter(None, named))
        self._real_model = given["model"] != SCRIPTED
        self._addresses = _find_models(self._team) if self._real_model else {}

    def run(self, faults: tuple[Fault, ...]) -> tuple[DrillResult, Interrupted | None]:
        """Run the drill. Return the result, and the signal that ended it early."""
        result, began, signalled = self._result, time.monotonic(), None
        result.weaknesses += find_weaknesses(self._team, self._functions)
        try:
            with tempfile.TemporaryDirectory(prefix="roboco-drill-", ignore_cleanup_errors=True) as folder:
                self._run_in(Path(folder).resolve(), faults)
        except Interrupted as signal:
            signalled, result.interrupted = signal, True
        except TransientError as error:
            result.error = str(error)
        result.seconds = time.monotonic() - began
        return result, signalled

    def _run_in(self, folder: Path, faults: tuple[Fault, ...]) -> None:
        report, given = self._report, self._given
        report.note(f"starting Redis, a store and a worker of each pool for team {self._team.name!r}")
        settings = self._settings.model_copy(update={"tool_modules": (*self._settings.tool_modules, MODULE)})
        with DrillStack(settings, folder, given["lease"]) as stack:
            team = self._replace(stack)
            if self._real_model:
                stack.model.pass_on(lambda request: f"{self._addresses[agent_of(request)]}/chat/completions")
            else:
                stack.model.script(ScriptedModel(team, given["seed"]))
            stack.start_workers()
            tools = (spec for one in all_teams(team) for spec in one.function_tools)
            irreversible = frozenset(spec.name for spec in tools if spec.effect == "irreversible")
            baseline = Baseline(irreversible, stack.without_store, self._real_model)
            with Orchestrator(stack.settings) as client:
                plan = DrillPlan(stack, client, team, given["prompt"], given["context"], given["tasks"], report.tick)

                def execute(fault: Fault, baseline: Baseline) -> ObservedRun:
                    return DrillRun(plan, fault, baseline).execute()

                run_faults(execute, faults, baseline, given["time_limit"], self._result, report)

    def _replace(self, stack: DrillStack) -> Team:
        """Return the team for the drill, and prepare the stack for it."""
        server = stack.model.base_url.removesuffix("/v1")
        servers = fetch_tools(self._settings, team_servers(self._team))
        listings = {(id(one.server.team), one.server.name): one for one in servers}
        replacement = Replacement(server, self._real_tools, self._functions, listings, self._real_model)
        team = replacement.apply(self._team)
        write_plans(stack.folder, replacement.stand_ins)
        keys = {profile.api_key_env for profile in team.models.values() if profile.api_key_env}
        stack.allow_model_server((server, *(f"{key}@{server}" for key in keys)))
        self._result.stand_ins = [one.tool for one in replacement.stand_ins if not one.real]
        self._result.real_tools = sorted(self._real_tools)
        self._result.notes += replacement.notes
        for note in (*tool_notes(self._result), *([_NO_STORE] if stack.without_store else [])):
            self._report.note(note)
        return team


def _find_models(team: Team) -> dict[tuple[str, str], str]:
    """Return the address of each agent's model server. Raise UsageError if a key is missing."""
    default = os.environ.get(BASE_URL_VARIABLE) or _DEFAULT_SERVER
    addresses = model_addresses(team, default)
    if default == _DEFAULT_SERVER and default in addresses.values() and not os.environ.get(DEFAULT_KEY_VARIABLE):
        raise UsageError("--model: a real model needs OPENAI_API_KEY or OPENAI_BASE_URL, or leave the option out")
    return {agent: address.rstrip("/") for agent, address in addresses.items()}


def _check_writable(path: Path) -> None:
    """Raise UsageError if the file cannot be written, before the drill takes minutes."""
    try:
        path.open("a").close()
    except OSError as error:
        raise UsageError(f"--html: {str(path)!r} cannot be written: {error.strerror}") from error


def _print_faults(screen: Screen, faults: tuple[Fault, ...], as_json: bool) -> None:
    if as_json:
        print_json([{"name": fault.name, "group": fault.group, "text": fault.text} for fault in faults])
        return
    width = max(len(fault.name) for fault in FAULTS)
    for group in dict.fromkeys(fault.group for fault in faults):
        screen.line((group, "bold"))
        for fault in faults:
            if fault.group == group:
                screen.line(f"  {fault.name:<{width}}", (f"  {fault.text}", "dim"))
