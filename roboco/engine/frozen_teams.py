"""FrozenTeams: the frozen team of each task and where it was forked from, read once per process."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.lineage import Fork
from roboco.domain.history.recorded_calls import RecordedCalls
from roboco.domain.history.state import TaskState
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.paths import lineage_path, recorded_calls_path, team_path, tombstone_path
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory, Erased
from roboco.ports.workspace import Files

_MAX_RECORDS = 8
"""The most records of runs that a process keeps: each may have 16 MB."""

_NO_PRICES: Final = {"price_in": 0.0, "price_out": 0.0, "price_cached_in": None, "price_cache_write": None}
MAX_ERROR_CHARS: Final = 300
"""Characters of the reason why a file cannot be read."""
StoredRecord = TypeVar("StoredRecord", bound=BaseModel)


class _MissingTeam(CorruptHistory):
    """The workspace has no team of the task."""


class FrozenTeams:
    """The frozen teams. `team.json` is created once, and never replaced, so a team that was read stays valid."""

    def __init__(self, files: Files, size: int = 1000, origin: Mapping[str, str] = MappingProxyType({})) -> None:
        """`origin` names the release and the model server of this process, for readers of `team.json`."""
        self._files = files
        self._origin = origin
        self._just_frozen: dict[str, Team] = {}
        self.get = lru_cache(maxsize=size)(self._read_team_of)
        self.fork_of = lru_cache(maxsize=size)(self._read_fork)
        self.recorded_calls_of = lru_cache(maxsize=_MAX_RECORDS)(self._read_recorded_calls)

    def _read_team_of(self, task_id: str) -> Team:
        if (team := self._just_frozen.get(task_id)) is not None:
            return team
        data = self._files.get(team_path(task_id))
        if data is None:
            if self._files.size(tombstone_path(task_id)) is not None:
                raise Erased(f"task {task_id!r} was erased")
            raise _MissingTeam(
                f"task {task_id!r} has no {team_path(task_id)} in this worker's workspace: its client uses another "
                "workspace (set ROBOCO_WORKSPACE to the same one), or the file was deleted (restore it)"
            )
        return _parse_team(task_id, data)

    def find(self, task_id: str) -> Team | None:
        """Return the team, or None if the workspace has none. Cost: one read, until this process has seen the team."""
        try:
            return self.get(task_id)
        except (_MissingTeam, Erased):
            return None

    def freeze(self, task_id: str, team: Team) -> bool:
        """Freeze the team, and keep it. Return False, and change nothing, if the task has another team.

        If it has this team with prices that were looked up earlier, that one is kept.
        It is durable once the caller has stored another file of the task, as each acceptance does before its marker.
        So the process that accepts a task need not read the file that it has just written.
        """
        frozen = _freeze(self._files, task_id, team, self._origin)
        if frozen is None:
            return False
        self._just_frozen[task_id] = frozen
        self.get(task_id)
        self._just_frozen.pop(task_id, None)
        return True

    def own_fork_of(self, task_id: str, first: TaskStep) -> Fork | None:
        """Return where the task with this first step was forked from, or None if it was not forked.

        The first step of a fork is that of its source, with the id that it has there. So a task whose first step has
        this task's id for position 0 is none, and needs no read of the workspace.
        """
        return None if first.step_id == step_id_at(task_id, 0) else self.fork_of(task_id)

    def started_at(self, task_id: str, state: TaskState, first: TaskStep) -> datetime | None:
        """Return when the task was submitted or forked: the first steps of a fork are older than the fork."""
        fork = self.own_fork_of(task_id, first)
        return state.started_at if fork is None else fork.created_at

    def retry_of(self, task_id: str, first: TaskStep) -> str:
        """Return the failed task with whose retry the task with this first step began, or ""."""
        fork = self.own_fork_of(task_id, first)
        return "" if fork is None or fork.retry is None else fork.task_id

    def _read_recorded_calls(self, task_id: str) -> RecordedCalls:
        """Return the recorded results of a run of `what-if`. A sub-task of one has none."""
        data = self._files.get(recorded_calls_path(task_id))
        return RecordedCalls() if data is None else _parse(RecordedCalls, recorded_calls_path(task_id), data)

    def _read_fork(self, task_id: str) -> Fork | None:
        """Return where the task was forked from, or None if it was not forked."""
        data = self._files.get(lineage_path(task_id))
        return None if data is None else _parse(Fork, lineage_path(task_id), data)


@lru_cache(maxsize=100)
def _parse_stored_team(data: bytes) -> Team:
    """Return the team without fields that a later release has added. Equal files are parsed once."""
    return Team.model_validate_json(data, extra="ignore")


def serialize_team(team: Team) -> bytes:
    """Return the content of `team.json`. Equal teams have equal bytes."""
    return team.model_dump_json(by_alias=True, exclude_none=True).encode()


def _freeze(files: Files, task_id: str, team: Team, origin: Mapping[str, str]) -> Team | None:
    """Store the team of a task. Return the stored team, or None, and change nothing, if the task has another one.

    The teams are compared, not their bytes: a file of another release may lack fields, which then have their defaults.
    """
    data = serialize_team(team)
    if origin:
        data = data[:-1] + b',"origin":%s}' % canonical_json(dict(origin)).encode()
    if files.create(team_path(task_id), data, durable=False):
        return _parse_stored_team(data)
    stored = files.get(team_path(task_id))
    found = None if stored is None else _parse_team(task_id, stored)
    same = found is not None and _as_declared(found) == _as_declared(_parse_stored_team(data))
    return found if same else None


def _as_declared(team: Team) -> Team:
    """Return the team without prices that were looked up: a later repetition of a submission may find others."""
    models = {
        name: profile if profile.price is None else profile.model_copy(update=_NO_PRICES)
        for name, profile in team.models.items()
    }
    teams = {name: _as_declared(inner) for name, inner in team.teams.items()}
    return team.model_copy(update={"models": models, "teams": teams})


def _parse_team(task_id: str, data: bytes) -> Team:
    try:
        return _parse_stored_team(data)
    except ValidationError as error:
        raise _unreadable(team_path(task_id), error) from error


def _parse(record: type[StoredRecord], path: str, data: bytes) -> StoredRecord:
    try:
        return record.model_validate_json(data)
    except ValidationError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: ValidationError) -> CorruptHistory:
    return CorruptHistory(
        f"{path} cannot be read: {error.errors(include_url=False)[0]['msg'][:MAX_ERROR_CHARS]}; it is of a release "
        "before 0.1.0 or of a newer one than this process, or was changed: let workers of that release end the task, "
        "or restore the file"
    )


def team_as_data(team: Team) -> dict[str, Any]:
    """Return the team as the object of a team file."""
    data: dict[str, Any] = json.loads(serialize_team(team))
    return data
