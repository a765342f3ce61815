"""roboco drill: run a team under faults, and check the promises."""

import logging
import os
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from roboco.adapters.model.allowlist import BASE_URL_VARIABLE, DEFAULT_KEY_VARIABLE
from roboco.adapters.team.file import load_team
from roboco.adapters.tools.function_loader import FunctionLoader
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
from roboco.lab.drill.decisions import wrong_decisions
from roboco.lab.drill.drill_run import DrillPlan
from roboco.lab.drill.faults import FAULTS, Fault, select
from roboco.lab.drill.html_report import render_html
from roboco.lab.drill.replies import ScriptedModel, agent_of
from roboco.lab.drill.result import DrillResult
from roboco.lab.drill.session import DrillSession
from roboco.lab.drill.stack import DrillStack
from roboco.lab.drill.stand_ins import MODULE, write_plans
from roboco.lab.drill.team import Replacement, check_real_tools, model_addresses
from roboco.lab.drill.text_report import TextReport
from roboco.lab.drill.weaknesses import find_weaknesses
from roboco.settings import load_settings

SCRIPTED: Final = "scripted"
REAL: Final = "real"
_DEFAULT_SERVER: Final = "https://api.openai.com/v1"


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
def drill(file: Path | None, listed: bool, only: tuple[str, ...], as_json: bool, **given: Any) -> int:
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
    screen = Screen(sys.stderr if as_json else sys.stdout)
    return _Command(file, faults, TextReport(screen), as_json, **given).run()


class _Command:
    """One call of the command."""

    def __init__(self, file: Path, faults: tuple[Fault, ...], report: TextReport, as_json: bool, **given: Any) -> None:
        self._faults = faults
        self._report = report
        self._as_json = as_json
        self._given = given
        self._settings = load_settings()
        self._team = self._load(file)
        self._functions = FunctionLoader(self._settings.tool_modules)
        self._result = DrillResult(self._team.name, given["seed"], given["model"])
        named = (name.strip() for name in given["real_tools"].split(","))
        self._real_tools = check_real_tools(self._team, filter(None, named))
        self._real_model = given["model"] != SCRIPTED
        self._addresses = self._find_models() if self._real_model else {}
        report.total = len(faults)

    def run(self) -> int:
        """Run the drill, print and write the result, and return the exit code."""
        if self._given["html"] is not None:
            _check_writable(self._given["html"])
        began = time.monotonic()
        self._result.weaknesses += find_weaknesses(self._team, self._functions)
        signalled: Interrupted | None = None
        try:
            with tempfile.TemporaryDirectory(prefix="roboco-drill-", ignore_cleanup_errors=True) as folder:
                self._run_in(Path(folder).resolve())
        except Interrupted as signal:
            signalled, self._result.interrupted = signal, True
        except TransientError as error:
            self._result.error = str(error)
        self._result.seconds = time.monotonic() - began
        self._print()
        if signalled is not None:
            return signalled.exit_code
        return FAILED if self._result.failed(self._given["strict"]) else SUCCESS

    def _load(self, file: Path) -> Team:
        team = load_team(file)
        mistakes = list(missing_functions(team, self._settings))
        if mistakes:
            raise InvalidTeam(str(file), tuple(mistakes))
        name = self._given["model"]
        return team if name in (SCRIPTED, REAL) else team.with_profile(name)

    def _run_in(self, folder: Path) -> None:
        self._report.note(f"starting Redis, a store and a worker of each pool for team {self._team.name!r}")
        settings = self._settings.model_copy(update={"tool_modules": (*self._settings.tool_modules, MODULE)})
        with DrillStack(settings, folder, self._given["lease"], self._report.note) as stack:
            team, irreversible = self._replace(stack)
            self._answer(stack, team)
            stack.start_workers()
            with closing(Orchestrator(stack.settings)) as orchestrator:
                plan = DrillPlan(
                    stack,
                    orchestrator,
                    team,
                    self._given["prompt"],
                    self._given["context"],
                    self._given["seed"],
                    partial(wrong_decisions, orchestrator),
                    self._given["tasks"],
                    self._report.tick,
                )
                session = DrillSession(
                    plan, self._result, irreversible, self._given["time_limit"], self._report.start, self._report.result
                )
                replace(session, real_model=self._real_model).run(self._faults)

    def _replace(self, stack: DrillStack) -> tuple[Team, frozenset[str]]:
        """Return the team for the drill, and the tools of which no call may run twice."""
        server = stack.model.base_url.removesuffix("/v1")
        listings = {
            (id(one.server.team), one.server.name): one for one in fetch_tools(self._settings, team_servers(self._team))
        }
        replacement = Replacement(server, self._real_tools, self._functions, listings, self._real_model)
        team, replaced = replacement.apply(self._team)
        write_plans(stack.folder, replaced.stand_ins)
        keys = {profile.api_key_env for profile in team.models.values() if profile.api_key_env}
        stack.allow_model_server((server, *(f"{key}@{server}" for key in keys)))
        self._result.stand_ins = [one.tool for one in replaced.stand_ins if not one.real]
        self._result.real_tools = sorted(self._real_tools)
        self._result.notes += replaced.notes
        for note in (*replaced.notes, *_tool_notes(self._result), stack.without_store and _NO_STORE):
            if note:
                self._report.note(note)
        return team, frozenset(spec.name for spec in _all_tools(team) if spec.effect == "irreversible")

    def _answer(self, stack: DrillStack, team: Team) -> None:
        """Have the model server answer from a script, or pass requests on to the team's own servers."""
        if not self._real_model:
            stack.model.script(ScriptedModel(team, self._given["seed"]))
            return
        stack.model.pass_on(lambda request: f"{self._addresses[agent_of(request)].rstrip('/')}/chat/completions")

    def _find_models(self) -> dict[tuple[str, str], str]:
        """Return the address of each agent's model server. Raise UsageError if a key is missing."""
        default = os.environ.get(BASE_URL_VARIABLE) or _DEFAULT_SERVER
        addresses = model_addresses(self._team, default)
        if default == _DEFAULT_SERVER and default in addresses.values() and not os.environ.get(DEFAULT_KEY_VARIABLE):
            raise UsageError("--model: a real model needs OPENAI_API_KEY or OPENAI_BASE_URL, or leave the option out")
        return addresses

    def _print(self) -> None:
        strict, html = self._given["strict"], self._given["html"]
        self._report.summary(self._result, strict)
        if html is not None:
            html.write_text(render_html(self._result, strict), encoding="utf-8")
            self._report.note(f"report: {html}")
        if self._as_json:
            print_json(self._result.record(strict))


_NO_STORE: Final = "the store is a folder: faults of the store need an S3 server, pip install 'roboco[dev-server]'"


def _tool_notes(result: DrillResult) -> list[str]:
    """Return what happens with the team's tools, for people."""
    notes = []
    if result.stand_ins:
        notes.append(f"stand-ins, without effects, run in place of: {', '.join(result.stand_ins)}")
    if result.real_tools:
        notes.append(f"these tools really run, perhaps again and again: {', '.join(result.real_tools)}")
    return notes


def _all_tools(team: Team) -> list[Any]:
    return [*team.tools, *(tool for inner in team.teams.values() for tool in _all_tools(inner))]


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
