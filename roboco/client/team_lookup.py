"""Teams as a caller names them."""

from pathlib import Path

from roboco.adapters.team.file import load_team, named_team
from roboco.domain.team.team import Team
from roboco.errors import UsageError
from roboco.settings import Settings


def chosen_team(settings: Settings, team: Team | str | Path) -> Team:
    """The team itself, of the file at a path, or of this name in ROBOCO_TEAMS_DIR; UsageError if there is none."""
    match team:
        case Team():
            return team
        case Path():
            return load_team(team)
        case str() if "/" in team or "." in team:
            return load_team(Path(team))
        case str():
            return named_team(settings.teams_dir, team)
    raise UsageError(f"team: must be a Team, a path or a name (found {team!r:.60})")
