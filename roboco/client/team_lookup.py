"""team_lookup: find the team that a caller names. `team_files/file.py` reads its file, and `domain/team` checks it.
`team_files/prices.py` looks its prices up.

A local caller may pass a Team, a path or a name. A message from another service holds a name or the team itself: a path
in a message is refused, so that a remote client cannot have a worker read any file.
"""

import re
from pathlib import Path

from roboco.domain.team.team import Team
from roboco.errors import NotFound, UsageError
from roboco.settings import Settings
from roboco.team_files.file import SUFFIXES, load_team, parse_team
from roboco.team_files.prices import with_prices

_TEAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def resolve_team(settings: Settings, team: Team | str | Path) -> Team:
    """Return the team itself, the team of the file at a path, or the team of this name in ROBOCO_TEAMS_DIR.

    A string with "/" or "." is a path. Prices replace `price: auto`. Raise UsageError if there is no such file or name,
    and InvalidTeam if the file has mistakes.
    """
    match team:
        case Team():
            return with_prices(team)
        case Path():
            return with_prices(load_team(team), str(team))
        case str() if "/" in team or "." in team:
            return with_prices(load_team(Path(team)), team)
        case str():
            return _named_team(settings, team)
    raise UsageError(f"team: must be a Team, a path or a name (found {team!r:.60})")


def resolve_sent_team(settings: Settings, team: object) -> Team:
    """Return the team that a message names or contains. A string is a name in ROBOCO_TEAMS_DIR, never a path.

    Raise UsageError if there is no team of this name, and InvalidTeam if the team has mistakes.
    """
    return _named_team(settings, team) if isinstance(team, str) else with_prices(parse_team(team))


def _named_team(settings: Settings, name: str) -> Team:
    folder = settings.teams_dir
    if folder is None:
        raise NotFound(f"team {name!r} was named, but ROBOCO_TEAMS_DIR is not set; send the team itself")
    files = team_files(folder)
    if name not in files:
        raise NotFound(f"no team {name[:80]!r} in {str(folder)!r}, possible are {', '.join(sorted(files)) or 'none'}")
    return with_prices(load_team(files[name]), str(files[name]))


def team_files(folder: Path) -> dict[str, Path]:
    """Return the team files of a folder by team name: NAME.yaml, NAME.yml, NAME.json or NAME/team.yaml."""
    files = [path for path in sorted(folder.glob("*")) if path.suffix in SUFFIXES]
    nested = [path for suffix in SUFFIXES for path in sorted(folder.glob(f"*/team{suffix}"))]
    by_name = {path.parent.name: path for path in nested} | {path.stem: path for path in files}
    return {name: path for name, path in by_name.items() if _TEAM_NAME.fullmatch(name)}
