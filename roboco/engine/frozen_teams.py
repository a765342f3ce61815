"""FrozenTeams: the frozen team of each task and where it was forked from, read once per process."""

import json
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from roboco.domain.history.lineage import Fork
from roboco.domain.history.state import TaskState
from roboco.domain.paths import lineage_path, team_path
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory
from roboco.ports.workspace import Files


class FrozenTeams:
    """The frozen teams. The team of a task never changes after the task was accepted."""

    def __init__(self, files: Files, size: int = 1000) -> None:
        self._files = files
        self.get = lru_cache(maxsize=size)(self._read_team_of)
        self.fork_of = lru_cache(maxsize=size)(self._read_fork)

    def _read_team_of(self, task_id: str) -> Team:
        data = self._files.get(team_path(task_id))
        if data is None:
            raise CorruptHistory(
                f"task {task_id!r} has no {team_path(task_id)} in this worker's workspace: its client uses another "
                "workspace (set ROBOCO_WORKSPACE to the same one), or the file was deleted (restore it)"
            )
        return Team.model_validate_json(data)

    def started_at(self, task_id: str, state: TaskState) -> datetime | None:
        """Return when the task was submitted or forked: the first steps of a fork are older than the fork."""
        fork = self.fork_of(task_id)
        return state.started_at if fork is None else fork.created_at

    def _read_fork(self, task_id: str) -> Fork | None:
        """Return where the task was forked from, or None if it was not forked."""
        data = self._files.get(lineage_path(task_id))
        return None if data is None else Fork.model_validate_json(data)


def serialize_team(team: Team) -> bytes:
    """Return the content of `team.json`. Equal teams have equal bytes."""
    return team.model_dump_json(by_alias=True, exclude_none=True).encode()


def freeze_team(files: Files, task_id: str, team: Team) -> bool:
    """Freeze the team of a task. Return False, and change nothing, if the task has another team.

    The teams are compared, not their bytes: a file of another release may lack fields, which then have their defaults.
    """
    data = serialize_team(team)
    if files.create(team_path(task_id), data):
        return True
    stored = files.get(team_path(task_id))
    return stored is not None and _parse_team(task_id, stored) == _parse_team(task_id, data)


def _parse_team(task_id: str, data: bytes) -> Team:
    try:
        return Team.model_validate_json(data)
    except ValidationError as error:
        raise CorruptHistory(
            f"{team_path(task_id)} cannot be read: {error.errors(include_url=False)[0]['msg']}; it may be of a newer "
            "release than this process, or was changed: update the process, or restore the file"
        ) from error


def team_as_data(team: Team) -> dict[str, Any]:
    """Return the team as the object of a team file."""
    data: dict[str, Any] = json.loads(serialize_team(team))
    return data
