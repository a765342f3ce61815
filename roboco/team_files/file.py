"""Team files: YAML or JSON, with prompts in files beside them."""

import errno
import io
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from roboco.domain.prompt.typed_answer import mistake_in_output
from roboco.domain.team.team import MAX_PROMPT_CHARS, Team
from roboco.domain.team.tool_spec import TaskTool
from roboco.domain.team.validation import MAX_TEAM_CHARS, validate_team
from roboco.errors import InvalidTeam, UsageError
from roboco.schemas.json_schema import schema_error
from roboco.team_files.safe_yaml import read_yaml, yaml_mistake
from roboco.templates.templates import check_template

SUFFIXES = (".yaml", ".yml", ".json")
MAX_TEAM_DEPTH = 5
"""Maximum depth of teams within teams."""


def load_team(path: Path) -> Team:
    """Return the team of a file, with its prompt files read in. Raise InvalidTeam, which lists all mistakes."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"team file {str(path)!r}: the name must end in {', '.join(SUFFIXES)}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"team file {str(path)!r} cannot be read: {_reason(error)}") from error
    return parse_team(_parse(path, text), str(path), path.parent)


def parse_team(data: Any, source: str = "team", folder: Path | None = None) -> Team:
    """Return the team that the data declares. Prompt files are read below `folder`, or refused without one.

    Raise InvalidTeam, which lists all mistakes.
    """
    if not isinstance(data, dict):
        found = "it is empty" if data is None else f"found {data!r:.60}"
        raise InvalidTeam(source, (f"the file: must hold 'name' and 'agents' ({found}); roboco init writes a team",))
    findings = _Findings()
    whole = _insert_files(data, _TeamLocation(folder), findings)
    team = validate_team(whole, source, (*findings.mistakes, *findings.mistakes_in_templates()))
    if mistakes := tuple(_mistakes_in_schemas(team)):
        raise InvalidTeam(source, mistakes)
    return team


def _mistakes_in_schemas(team: Team, path: str = "") -> Iterator[str]:
    for index, agent in enumerate(team.agents):
        if isinstance(agent.output, dict) and (mistake := mistake_in_output(agent.output, schema_error)):
            yield f"{path}agents[{index}].output: {mistake}"
    for index, tool in enumerate(team.tools):
        if isinstance(tool, TaskTool) and (mistake := schema_error(tool.parameters)):
            yield f"{path}tools[{index}].parameters: {mistake}"
    for name, inner in team.teams.items():
        yield from _mistakes_in_schemas(inner, f"{path}teams.{name}.")


@dataclass(frozen=True)
class _TeamLocation:
    """The location of a team: the folder of its files, its path in the whole team, and the levels that may follow."""

    folder: Path | None
    path: str = ""
    levels_left: int = MAX_TEAM_DEPTH


class _Findings:
    """The mistakes in a team and in the teams within it, and their templates, which are not parsed yet.

    Parsing takes time and memory for each character. Therefore the length of each template and of all together is
    checked before the first one is parsed.
    """

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self._templates: list[tuple[str, str]] = []
        self._characters = 0

    def prompt(self, at: str, prompt: str) -> str:
        """Return the prompt, or a placeholder if it is too long, alone or together with the previous ones."""
        if len(prompt) > MAX_PROMPT_CHARS:
            self.mistakes.append(f"{at}: has {len(prompt)} characters, at most {MAX_PROMPT_CHARS} are possible")
            return _PLACEHOLDER_PROMPT
        before, self._characters = self._characters, self._characters + len(prompt)
        if self._characters <= MAX_TEAM_CHARS:
            self._templates.append((at, prompt))
            return prompt
        if before <= MAX_TEAM_CHARS:
            together = f"have {self._characters} characters, at most {MAX_TEAM_CHARS} are possible together"
            self.mistakes.append(f"{at}: the prompts up to here {together}")
        return _PLACEHOLDER_PROMPT

    def mistakes_in_templates(self) -> Iterator[str]:
        """Check the templates, and yield their mistakes."""
        for at, template in self._templates:
            yield from (f"{at}: {mistake}" for mistake in check_template(template))


_MAX_NAME_CHARS = 80
"""Maximum number of characters of a team's name in a path: mistakes repeat it."""
_PLACEHOLDER_PROMPT = "(none)"
"""Replaces a prompt with a mistake, so that no second mistake is found in it."""


def _insert_files(data: dict[str, Any], place: _TeamLocation, found: _Findings) -> dict[str, Any]:
    """Return the team's data, with the prompts and teams of other files inserted."""
    whole = data | {"agents": _insert_prompts(data["agents"], place, found)} if "agents" in data else data
    teams = data.get("teams")
    if not isinstance(teams, dict):
        return whole
    read: dict[str, Any] = {}
    for name, team in teams.items():
        path = f"{place.path}teams.{str(name)[:_MAX_NAME_CHARS]}"
        try:
            inner, beside = _read_team(team, place.folder) if isinstance(team, str) else (team, place.folder)
        except (OSError, ValueError, UsageError) as error:
            found.mistakes.append(f"{path}: {team!r} cannot be read: {_reason(error)}")
            continue
        if place.levels_left == 0:
            found.mistakes.append(
                f"{path}: teams are nested more than {MAX_TEAM_DEPTH} levels deep; does one contain itself?"
            )
            continue
        there = _TeamLocation(beside, f"{path}.", place.levels_left - 1)
        read[name] = _insert_files(inner, there, found) if isinstance(inner, dict) else inner
    return whole | {"teams": read}


def _read_team(named: str, folder: Path | None) -> tuple[Any, Path]:
    beside = _locate_file(named, folder)
    with open(_open_checked(beside), encoding="utf-8") as file:
        return _parse(beside.path, file.read()), beside.path.parent


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text) if path.suffix == ".json" else read_yaml(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidTeam(
            str(path), (f"the file: is not {path.suffix[1:].upper()}: {yaml_mistake(text, error)}",)
        ) from error


def _insert_prompts(agents: Any, place: _TeamLocation, found: _Findings) -> Any:
    if not isinstance(agents, list):
        return agents
    whole: list[Any] = []
    for index, agent in enumerate(agents):
        if not isinstance(agent, dict):
            whole.append(agent)
            continue
        field = "prompt_file" if "prompt_file" in agent and "prompt" not in agent else "prompt"
        at = f"{place.path}agents[{index}]"
        whole.append(agent := _insert_prompt(agent, at, place.folder, found.mistakes))
        if isinstance(prompt := agent.get("prompt"), str):
            agent["prompt"] = found.prompt(f"{at}.{field}", prompt)
    return whole


def _insert_prompt(agent: dict[str, Any], at: str, folder: Path | None, mistakes: list[str]) -> dict[str, Any]:
    agent = dict(agent)
    named = agent.pop("prompt_file", None)
    if named is not None and "prompt" in agent:
        mistakes.append(f"{at}: has both 'prompt' and 'prompt_file', keep one of them")
    elif named is not None:
        agent["prompt"] = _PLACEHOLDER_PROMPT
        try:
            agent["prompt"] = _read_prompt(named, folder)
        except (OSError, ValueError) as error:
            mistakes.append(f"{at}.prompt_file: {named!r} cannot be read: {_reason(error)}")
    return agent


def _read_prompt(named: Any, folder: Path | None) -> str:
    beside = _locate_file(named, folder)
    hidden = any(part.startswith(".") for part in Path(named).parts)
    if hidden or any(map(_is_hidden, beside.parts)):
        raise ValueError("files and folders whose names begin with '.' hold no prompts; choose another name")
    return _read_limited_text(_open_checked(beside))


_KUBERNETES_FOLDER = re.compile(r"\.\.(data|\d{4}_[0-9_.]+)")


def _is_hidden(part: str) -> bool:
    """Return True if the name begins with a dot, except for the folders that Kubernetes creates behind a ConfigMap."""
    return part.startswith(".") and _KUBERNETES_FOLDER.fullmatch(part) is None


def _read_limited_text(handle: int) -> str:
    """Return the text of a file, of which no more is read than a prompt may have. Raise ValueError if it has more."""
    with open(handle, "rb") as file:
        data = file.read(MAX_PROMPT_CHARS + 1)
    if len(data) > MAX_PROMPT_CHARS or b"\0" in data:
        raise ValueError(f"it is no text of at most {MAX_PROMPT_CHARS} bytes in UTF-8")
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()


@dataclass(frozen=True)
class _NearbyFile:
    """A file beside or below a team file: the path as it is named, and its location after all links are resolved."""

    path: Path
    folder: Path
    parts: tuple[str, ...]


def _locate_file(named: Any, folder: Path | None) -> _NearbyFile:
    """Return the location of a file beside or below the team file. Raise ValueError if it is elsewhere."""
    if folder is None:
        raise ValueError("a team that is not in a file has its prompts and teams in itself")
    if not isinstance(named, str) or Path(named).is_absolute() or ".." in Path(named).parts:
        raise ValueError("name a file beside or below the team file")
    path, real = folder / named, folder.resolve()
    resolved = path.resolve()
    if not resolved.is_relative_to(real):
        raise ValueError("the file lies outside the team's folder")
    return _NearbyFile(path, real, resolved.relative_to(real).parts)


_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a FIFO would wait for its writer."""


def _open_checked(beside: _NearbyFile) -> int:
    """Open the regular file at the checked location. Raise ValueError if a link was put there since the check."""
    handle = os.open(beside.folder, _FOLDER_FLAGS)
    for index, part in enumerate(beside.parts):
        flags = _FILE_FLAGS if index == len(beside.parts) - 1 else _FOLDER_FLAGS
        try:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ValueError("its path was changed while it was opened; try again") from error
            raise
        finally:
            os.close(handle)
        handle = inner
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise ValueError("it is no regular file")


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
