"""Checks of teams: they load, and their tools and MCP servers are available."""

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from roboco.broker.shop import check_task
from roboco.cli.doctor.check import CheckResult, expect
from roboco.client.team_lookup import team_files
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Agent, Team
from roboco.domain.team.tool_spec import TaskTool, ToolSpec
from roboco.errors import Forbidden, RobocoError, UsageError
from roboco.settings import Settings
from roboco.team_files.file import load_team
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.mcp.servers import connection_class
from roboco.tools.output_types import OutputTypes

Named = TypeVar("Named")


def check_tools(settings: Settings) -> Iterator[CheckResult]:
    """Check that the modules of ROBOCO_TOOL_MODULES can be imported here, as a worker imports them in its folder."""
    sys.path.insert(0, str(Path.cwd()))
    for module in settings.tool_modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # a module of the user's may fail in any way
            todo = "install it where the workers run, or start them in its folder; ROBOCO_TOOL_MODULES names modules"
            yield CheckResult(f"tools {module}", "fail", f"{type(error).__name__}: {error}", todo)
        else:
            yield CheckResult(f"tools {module}", "ok", "can be imported")


def loaded_teams(settings: Settings) -> Iterator[tuple[str, Team | RobocoError | OSError]]:
    """Yield the name of each team in ROBOCO_TEAMS_DIR with the team, or with the error of its file."""
    if settings.teams_dir is None:
        return
    for name, file in sorted(team_files(settings.teams_dir).items()):
        try:
            yield name, load_team(file)
        except (RobocoError, OSError) as error:
            yield name, error


def check_teams(settings: Settings, teams: Mapping[str, Team | RobocoError | OSError]) -> Iterator[CheckResult]:
    """Check that the teams of ROBOCO_TEAMS_DIR load, and that their functions can be imported."""
    if settings.teams_dir is None:
        return
    if not teams:
        yield CheckResult(
            "teams", "warn", f"none in {str(settings.teams_dir)!r}", "point ROBOCO_TEAMS_DIR to team files"
        )
    for name, team in teams.items():
        if not isinstance(team, Team):
            yield CheckResult(f"team {name}", "fail", " ".join(str(team).split()), "roboco validate lists all mistakes")
            continue
        mistakes = [*missing_functions(team, settings), *forbidden_tasks(team, settings)]
        todo = "name their modules in ROBOCO_TOOL_MODULES, and install them where the workers run"
        yield expect(f"team {name}", not mistakes, "; ".join(mistakes) or "can be run", todo, "fail")


def check_mcp(settings: Settings) -> Iterator[CheckResult]:
    """Check that the programs in mcp_servers of ROBOCO_ALLOWLIST are installed; its other entries are addresses."""
    if not settings.allowlist.mcp_servers:
        return
    try:
        connection_class()
    except UsageError as error:
        yield CheckResult("mcp", "fail", str(error), "pip install 'roboco[mcp]' where the tools workers run")
        return
    for entry in settings.allowlist.mcp_servers:
        found = shlex.split(entry)
        if urlsplit(entry).scheme in ("http", "https"):
            yield CheckResult("mcp", "ok", entry)
        else:
            installed = bool(found) and shutil.which(found[0]) is not None
            finding = entry if installed else f"{entry}: there is no such program here"
            todo = "install it where the tools workers run, or correct mcp_servers of ROBOCO_ALLOWLIST"
            yield expect("mcp", installed, finding, todo, "fail")
    for variable in settings.allowlist.mcp_env:
        if variable not in os.environ:
            yield CheckResult(
                "mcp variable", "warn", f"{variable} is not set here", "set it where the tools workers run"
            )


def missing_functions(team: Team, settings: Settings, path: str = "") -> Iterator[str]:
    """Yield a mistake for each function of the team file, with its inner teams, that cannot be imported here."""
    sys.path.insert(0, str(Path.cwd()))  # as on a worker
    functions = FunctionLoader(settings.tool_modules)
    for index, tool in enumerate(team.tools):
        if isinstance(tool, ToolSpec):
            yield from _import_mistake(f"{path}tools[{index}].function", functions.tool, tool.function)
    if isinstance(model := team.collaboration_model, Custom):
        yield from _import_mistake(f"{path}collaboration_model.router", functions.router, model.router)
    types = OutputTypes(functions)
    for index, agent in enumerate(team.agents):
        yield from _missing_of_agent(f"{path}agents[{index}]", agent, functions, types)
    for name, inner in team.teams.items():
        yield from missing_functions(inner, settings, f"{path}teams.{name}.")


def _missing_of_agent(at: str, agent: Agent, functions: FunctionLoader, types: OutputTypes) -> Iterator[str]:
    if (turn := agent.turn_call) is not None:
        field = "function" if agent.function else "pydantic_ai"
        yield from _import_mistake(f"{at}.{field}", functions.check_turn, turn)
    if agent.deps is not None:
        yield from _import_mistake(f"{at}.deps", functions.deps, agent.deps)
    if agent.output is not None:
        unchecked = agent.model_copy(update={"validator": None})
        yield from _import_mistake(f"{at}.output", types.schema, unchecked)
    if agent.validator is not None:
        yield from _import_mistake(f"{at}.validate", functions.check, agent.validator)


def forbidden_tasks(team: Team, settings: Settings, path: str = "") -> Iterator[str]:
    """Yield a mistake for each Celery task that the operator's allowlist lacks, if it lists some."""
    for index, tool in enumerate(team.tools if settings.allowlist.tasks else ()):
        if isinstance(tool, TaskTool):
            try:
                check_task(tool, settings.allowlist.tasks)
            except Forbidden as error:
                yield f"{path}tools[{index}].task: {error}"
    for name, inner in team.teams.items():
        yield from forbidden_tasks(inner, settings, f"{path}teams.{name}.")


def _import_mistake(at: str, find: Callable[[Named], object], named: Named) -> Iterator[str]:
    try:
        find(named)
    except RobocoError as error:
        yield f"{at}: {error}"
    except Exception as error:  # a module of the user's may fail in any way when it is imported
        yield f"{at}: cannot be imported: {error!r}"
