"""Checks of what teams need: that they load, and that their tools, MCP servers and models can be had."""

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import openai

from roboco.adapters.mcp.conversation import check_installed
from roboco.adapters.team_file import load_team, teams_in
from roboco.cli.check import Check, wanted
from roboco.cli.validate import missing_functions
from roboco.domain.model_profile import ModelProfile
from roboco.domain.team import Team
from roboco.errors import RobocoError, UsageError
from roboco.settings import Settings

_PATIENCE = 10.0
"""Seconds for a model's server to say which models it has."""


def check_tools(settings: Settings) -> Iterator[Check]:
    """Whether the modules of ROBOCO_TOOLS can be imported here, as a worker does it in its folder."""
    sys.path.insert(0, str(Path.cwd()))
    for module in settings.tools:
        try:
            importlib.import_module(module)
        except Exception as error:  # a module of the user's may fail in any way
            todo = "install it where the workers run, or start them in its folder; ROBOCO_TOOLS names modules"
            yield Check(f"tools {module}", "fail", f"{type(error).__name__}: {error}", todo)
        else:
            yield Check(f"tools {module}", "ok", "can be imported")


def loaded_teams(settings: Settings) -> Iterator[tuple[str, Team | RobocoError | OSError]]:
    """The teams of ROBOCO_TEAMS by name, or what is wrong with them."""
    if settings.teams is None:
        return
    for name, file in sorted(teams_in(settings.teams).items()):
        try:
            yield name, load_team(file)
        except (RobocoError, OSError) as error:
            yield name, error


def check_teams(settings: Settings, teams: Mapping[str, Team | RobocoError | OSError]) -> Iterator[Check]:
    """Whether the teams of ROBOCO_TEAMS load, and their functions can be had."""
    if settings.teams is None:
        return
    if not teams:
        yield Check(
            "teams", "warn", f"none in {str(settings.teams)!r}", "make ROBOCO_TEAMS name a folder of team files"
        )
    for name, team in teams.items():
        if not isinstance(team, Team):
            yield Check(f"team {name}", "fail", " ".join(str(team).split()), "roboco validate says all of it")
            continue
        mistakes = list(missing_functions(team, settings))
        todo = "name their modules in ROBOCO_TOOLS, and install them where the workers run"
        yield wanted(f"team {name}", not mistakes, "; ".join(mistakes) or "can be run", todo, "fail")


def check_mcp(settings: Settings) -> Iterator[Check]:
    """Whether the MCP servers that ROBOCO_MCP allows can be started, or name addresses."""
    if not settings.mcp:
        return
    try:
        check_installed()
    except UsageError as error:
        yield Check("mcp", "fail", str(error), "pip install 'roboco[mcp]' where the tools workers run")
        return
    for entry in settings.mcp:
        found = shlex.split(entry)
        if urlsplit(entry).scheme in ("http", "https"):
            yield Check("mcp", "ok", entry)
        else:
            there = bool(found) and shutil.which(found[0]) is not None
            told = entry if there else f"{entry}: there is no such program here"
            yield wanted("mcp", there, told, "install it where the tools workers run, or mend ROBOCO_MCP", "fail")
    for variable in settings.mcp_env:
        if variable not in os.environ:
            yield Check("mcp variable", "warn", f"{variable} is not set here", "set it where the tools workers run")


def check_models(teams: Iterable[Team | RobocoError | OSError]) -> Iterator[Check]:
    """Whether the servers of the teams' models answer, accept the keys and have the models."""
    declared = [profile for team in teams if isinstance(team, Team) for profile in team.models.values()]
    for profile in {
        (one.base_url, one.api_key_env, one.model): one for one in declared or [ModelProfile(model="gpt-4o-mini")]
    }.values():
        yield _model(profile)


def _model(profile: ModelProfile) -> Check:
    name, variable = f"model {profile.model}", profile.api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if not key:
        return Check(name, "fail", f"{variable} is not set", "set it here and where the agents workers run")
    try:
        with openai.OpenAI(base_url=profile.base_url, api_key=key, timeout=_PATIENCE, max_retries=0) as client:
            models = {model.id for model in client.models.list().data}
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        return Check(name, "fail", f"its server refuses the key: {error.status_code}", f"mend {variable}")
    except openai.NotFoundError:
        return Check(name, "ok", "its server answers, but does not say which models it has")
    except openai.OpenAIError as error:
        told = f"its server does not answer: {type(error).__name__}"
        return Check(name, "fail", told, "check OPENAI_BASE_URL, or the team's base_url, and the way there")
    return wanted(
        name,
        profile.model in models,
        "answers" if profile.model in models else "is not there",
        f"name one of {', '.join(sorted(models)[:5]) or 'those that it has'}",
    )
