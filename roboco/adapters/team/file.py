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

from roboco.adapters.team.safe_yaml import read_yaml
from roboco.adapters.templates.rules import is_plain
from roboco.adapters.templates.templates import check_template, code_size
from roboco.domain.team.team import MAX_PROMPT, Team
from roboco.domain.team.validation import MAX_TEAM, read_team
from roboco.errors import TeamError, UsageError

SUFFIXES = (".yaml", ".yml", ".json")
MOST_CODE = 20_000
"""How many words and signs of code the templates of a team may have together: about 0.2 s to parse."""
MOST_NESTED = 5
"""How deep teams may stand in teams."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def load_team(path: Path) -> Team:
    """The team of a file, its prompt files read in; TeamError lists every mistake at once."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"team file {str(path)!r}: the name must end in {', '.join(SUFFIXES)}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"team file {str(path)!r} cannot be read: {_reason(error)}") from error
    return team_from(_parse(path, text), str(path), path.parent)


def team_from(data: Any, source: str = "team", folder: Path | None = None) -> Team:
    """The team that data declares; prompt files are read below `folder`, or refused without one."""
    if not isinstance(data, dict):
        raise TeamError(source, (f"the file: must hold an object with 'name' and 'agents' (found {data!r:.60})",))
    found = _Found()
    whole = _whole(data, _Place(folder), found)
    return read_team(whole, source, (*found.mistakes, *found.mistakes_in_templates()))


@dataclass(frozen=True)
class _Place:
    """Where a team is: the folder of its files, its path in the whole team, and how many levels of teams may follow."""

    folder: Path | None
    path: str = ""
    deep: int = MOST_NESTED


class _Found:
    """The mistakes in a team and the teams in it, and the templates in them, of which none is parsed at first.

    Parsing takes time and memory for each character, so the length of each template and of all together is checked
    before the first one is parsed.
    """

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self._templates: list[tuple[str, str]] = []
        self._characters = 0

    def prompt(self, at: str, prompt: str) -> str:
        """Return the prompt, or the stand-in for one that is too long, alone or with those before it."""
        if len(prompt) > MAX_PROMPT:
            self.mistakes.append(f"{at}: has {len(prompt)} characters, at most {MAX_PROMPT} are possible")
            return _NO_PROMPT
        before, self._characters = self._characters, self._characters + len(prompt)
        if self._characters <= MAX_TEAM:
            self._keep(at, prompt)
            return prompt
        if before <= MAX_TEAM:
            together = f"have {self._characters} characters, at most {MAX_TEAM} are possible together"
            self.mistakes.append(f"{at}: the prompts up to here {together}")
        return _NO_PROMPT

    def _keep(self, at: str, template: str) -> None:
        if not is_plain(template) and len(self._templates) <= MOST_CODE:  # each of them has at least one sign of code
            self._templates.append((at, template))

    def mistakes_in_templates(self) -> Iterator[str]:
        """Parse the templates until their code is too much, and yield what is wrong with them."""
        left = MOST_CODE
        for at, template in self._templates:
            left -= code_size(template)
            if left < 0:
                much = f"more than {MOST_CODE} words and signs of code"
                yield f"{at}: the templates up to here have {much}, make them simpler"
                return
            yield from (f"{at}: {mistake}" for mistake in check_template(template))


_LONGEST_SHOWN = 80
"""Characters of the name of a team in a path: mistakes repeat it."""
_NO_PROMPT = "(none)"
"""Stands in for a prompt that is a mistake already, so that no second mistake is found in it."""


def _whole(data: dict[str, Any], place: _Place, found: _Found) -> dict[str, Any]:
    """The team's data with the prompts and teams of other files in it."""
    whole = data | {"agents": _with_prompts(data["agents"], place, found)} if "agents" in data else data
    teams = data.get("teams")
    if not isinstance(teams, dict):
        return whole
    read: dict[str, Any] = {}
    for name, team in teams.items():
        path = f"{place.path}teams.{str(name)[:_LONGEST_SHOWN]}"
        try:
            inner, beside = _read_team(team, place.folder) if isinstance(team, str) else (team, place.folder)
        except (OSError, ValueError, UsageError) as error:
            found.mistakes.append(f"{path}: {team!r} cannot be read: {_reason(error)}")
            continue
        if place.deep == 0:
            found.mistakes.append(f"{path}: teams stand in teams more than {MOST_NESTED} deep; does one name itself?")
            continue
        there = _Place(beside, f"{path}.", place.deep - 1)
        read[name] = _whole(inner, there, found) if isinstance(inner, dict) else inner
    return whole | {"teams": read}


def _read_team(named: str, folder: Path | None) -> tuple[Any, Path]:
    beside = _beside(named, folder)
    with open(_opened(beside), encoding="utf-8") as file:
        return _parse(beside.path, file.read()), beside.path.parent


def named_team(folder: Path | None, name: str) -> Team:
    """The team of this name in the folder of teams: NAME.yaml, NAME.yml, NAME.json or NAME/team.yaml."""
    if folder is None:
        raise UsageError(
            f"team {name!r} was named, but ROBOCO_TEAMS_DIR names no folder of teams; send the team itself"
        )
    found = teams_in(folder)
    if name not in found:
        raise UsageError(f"no team {name[:80]!r} in {str(folder)!r}, possible are {', '.join(sorted(found)) or 'none'}")
    return load_team(found[name])


def teams_in(folder: Path) -> dict[str, Path]:
    """The team files of a folder of teams, by the names that they are submitted by."""
    files = [path for path in sorted(folder.glob("*")) if path.suffix in SUFFIXES]
    nested = [path for suffix in SUFFIXES for path in sorted(folder.glob(f"*/team{suffix}"))]
    by_name = {path.parent.name: path for path in nested} | {path.stem: path for path in files}
    return {name: path for name, path in by_name.items() if _NAME.fullmatch(name)}


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text) if path.suffix == ".json" else read_yaml(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        told = " ".join(str(error).split())
        raise TeamError(str(path), (f"the file: is not {path.suffix[1:].upper()}: {told}",)) from error


def _with_prompts(agents: Any, place: _Place, found: _Found) -> Any:
    if not isinstance(agents, list):
        return agents
    whole: list[Any] = []
    for index, agent in enumerate(agents):
        if not isinstance(agent, dict):
            whole.append(agent)
            continue
        field = "prompt_file" if "prompt_file" in agent and "prompt" not in agent else "prompt"
        at = f"{place.path}agents[{index}]"
        whole.append(agent := _with_prompt(agent, at, place.folder, found.mistakes))
        if isinstance(prompt := agent.get("prompt"), str):
            agent["prompt"] = found.prompt(f"{at}.{field}", prompt)
    return whole


def _with_prompt(agent: dict[str, Any], at: str, folder: Path | None, mistakes: list[str]) -> dict[str, Any]:
    agent = dict(agent)
    named = agent.pop("prompt_file", None)
    if named is not None and "prompt" in agent:
        mistakes.append(f"{at}: has both 'prompt' and 'prompt_file', keep one of them")
    elif named is not None:
        agent["prompt"] = _NO_PROMPT
        try:
            agent["prompt"] = _read_prompt(named, folder)
        except (OSError, ValueError) as error:
            mistakes.append(f"{at}.prompt_file: {named!r} cannot be read: {_reason(error)}")
    return agent


def _read_prompt(named: Any, folder: Path | None) -> str:
    beside = _beside(named, folder)
    hidden = any(part.startswith(".") for part in Path(named).parts)
    if hidden or any(map(_is_hidden, beside.parts)):
        raise ValueError("files and folders whose names begin with '.' hold no prompts; choose another name")
    return _small_text(_opened(beside))


_OF_KUBERNETES = re.compile(r"\.\.(data|\d{4}_[0-9_.]+)")


def _is_hidden(part: str) -> bool:
    """Return True if the name begins with a dot, unless Kubernetes names a folder behind a ConfigMap so."""
    return part.startswith(".") and _OF_KUBERNETES.fullmatch(part) is None


def _small_text(handle: int) -> str:
    """The text of a file; ValueError if it is too long, before it is read."""
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if found.st_size > MAX_PROMPT:
            raise ValueError(f"it has {found.st_size} bytes, at most {MAX_PROMPT} are possible")
        data = file.read(MAX_PROMPT + 1)
    if len(data) > MAX_PROMPT or b"\0" in data:
        raise ValueError(f"it is no text of at most {MAX_PROMPT} bytes in UTF-8")
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()


@dataclass(frozen=True)
class _Beside:
    """A file beside or below a team file: as it is named, and where it is after all links."""

    path: Path
    folder: Path
    parts: tuple[str, ...]


def _beside(named: Any, folder: Path | None) -> _Beside:
    """The place of a file beside or below the team file; ValueError if it is elsewhere."""
    if folder is None:
        raise ValueError("a team that is not in a file has its prompts and teams in itself")
    if not isinstance(named, str) or Path(named).is_absolute() or ".." in Path(named).parts:
        raise ValueError("name a file beside or below the team file")
    path, real = folder / named, folder.resolve()
    resolved = path.resolve()
    if not resolved.is_relative_to(real):
        raise ValueError("the file lies outside the team's folder")
    return _Beside(path, real, resolved.relative_to(real).parts)


_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK the opening of a FIFO would wait for its writer."""


def _opened(beside: _Beside) -> int:
    """Open the regular file at the place that was checked. ValueError if a link has been put there since the check."""
    handle = os.open(beside.folder, _FOLDER)
    for index, part in enumerate(beside.parts):
        flags = _FILE if index == len(beside.parts) - 1 else _FOLDER
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
