"""FrozenTeams: the frozen team of each task, read once per process."""

from functools import lru_cache

from roboco.domain.paths import team_path
from roboco.domain.team import Team
from roboco.errors import CorruptHistory
from roboco.ports import Files


class FrozenTeams:
    """The frozen teams; a team never changes once its task was accepted."""

    def __init__(self, files: Files, size: int = 1000) -> None:
        self._files = files
        self.get = lru_cache(maxsize=size)(self._read)

    def _read(self, task_id: str) -> Team:
        data = self._files.get(team_path(task_id))
        if data is None:
            raise CorruptHistory(f"task {task_id!r} has no team.json in its workspace")
        return Team.model_validate_json(data)


def frozen(team: Team) -> bytes:
    """The team as it stands in `team.json`; the same team always has the same bytes."""
    return team.model_dump_json(by_alias=True, exclude_none=True).encode()
