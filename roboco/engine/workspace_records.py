"""The records of tasks in the workspace: frozen teams, summaries, archived events, and the receipts of erased tasks.

Receipts reject whatever arrives late:

    submission, fork, message, upload ─► receipt? ─► Erased (HTTP status 410)
    commit, claim, emit of a worker   ─► fence in Redis is gone ─► refused; a late file is removed by a later check
    open marker of a late client      ─► pass ─► receipt? ─► the task is erased again

Redis refuses to create an erased task for two days, longer than any client or worker takes. The receipt in the
workspace remains, until an operator removes it; then the id may be used again.

Archived events:

A coordinator merges the segments into `events.jsonl` and then deletes them. So a reader looks for an event in the
segments first, and then in the file: an event that is in neither is not archived, or lost.

A reader may wait for its client between two events. It then holds a segment, or a piece of the file, and no more.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.lineage import Fork
from roboco.domain.history.recorded_calls import RecordedCalls
from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.ids import step_id_at
from roboco.domain.paths import (
    CLOSED,
    erasure_path,
    event_segment_path,
    event_segments_path,
    events_path,
    lineage_path,
    open_marker_path,
    recorded_calls_path,
    summary_path,
    team_path,
    tombstone_path,
)
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.domain.sorted_lines import lines_from
from roboco.domain.stream.event_file import from_stored, place_of, segment_places
from roboco.domain.task_summary import TaskSummary, parse_summary
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory, Erased, NotFound, UsageError
from roboco.ports.histories import Histories
from roboco.ports.workspace import Files


def receipt_of(files: Files, task_id: str) -> ErasureReceipt | None:
    """Return the receipt of the erased task, or None if it is not erased. Cost: one read."""
    data = files.get(tombstone_path(task_id))
    return None if data is None else parse_receipt(data) or _receipt_of_broken(task_id)


def is_erased(files: Files, task_id: str) -> bool:
    """Return True if nothing of the task is left. Cost: one read."""
    receipt = receipt_of(files, task_id)
    return receipt is not None and receipt.status == "erased"


def parse_receipt(data: bytes) -> ErasureReceipt | None:
    """Return the receipt, or None if the bytes are not one, as a full disk or a restore may leave them."""
    try:
        return ErasureReceipt.model_validate_json(data)
    except ValidationError:
        return None


def parse_request(data: bytes) -> ErasureRequest | None:
    """Return the request, or None if the bytes are not one, as a full disk or a restore may leave them."""
    try:
        return ErasureRequest.model_validate_json(data)
    except ValidationError:
        return None


def check_not_erased(files: Files, task_id: str) -> None:
    """Raise Erased if the task was erased, or is being erased."""
    if (error := erased_error(files, task_id)) is not None:
        raise error


def check_not_erasing(files: Files, task_id: str) -> None:
    """Raise Erased if the task was erased, or if its erasure is requested. Cost: two reads."""
    check_not_erased(files, task_id)
    if files.size(erasure_path(task_id)) is not None:
        raise Erased(f"task {task_id!r} is being erased, as was requested")


def erased_error(files: Files, task_id: str) -> Erased | None:
    """Return the error of an erased task, or None if the task is not erased."""
    receipt = receipt_of(files, task_id)
    if receipt is None:
        return None
    if receipt.status == "erasing":
        return Erased(f"task {task_id!r} is being erased, as was requested")
    at = f"{receipt.finished_at or receipt.requested_at:%Y-%m-%d %H:%M} UTC"
    by = f" by {receipt.by}" if receipt.by else ""
    return Erased(f"task {task_id!r} was erased at {at}{by}; its id cannot be used again")


def _receipt_of_broken(task_id: str) -> ErasureReceipt:
    """Return a receipt in place of a broken one: whatever it holds, the task was erased."""
    return ErasureReceipt(task_id=task_id, status="erased", requested_at=datetime.fromtimestamp(0, UTC))


class Summaries:
    """The summaries of tasks in the workspace."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def get(self, task_id: str) -> TaskSummary | None:
        """Return the summary in the workspace, or None if there is none.

        Raise CorruptHistory if it cannot be read.
        """
        if (data := self._files.get(summary_path(task_id))) is None:
            return None
        if (summary := parse_summary(data)) is None:
            raise CorruptHistory(
                f"{summary_path(task_id)!r} cannot be read: restore it from a backup; that of an open task is replaced "
                "when the task next waits or ends"
            )
        return summary

    def require(self, task_id: str) -> TaskSummary:
        """Return the summary in the workspace. Raise UsageError if there is no such task, or if it was erased."""
        summary = self.get(task_id)
        if summary is None:
            raise self.missing(task_id)
        return summary

    def missing(self, task_id: str) -> UsageError:
        """Return the error of a task that has no summary: it was erased, or there is none. Cost: one read."""
        return erased_error(self._files, task_id) or NotFound(f"no task {task_id!r} in this workspace")

    def is_closed(self, task_id: str) -> bool:
        """Return True if the task has been closed, False if it is open or unknown.

        A submission may write the marker meanwhile: it adds the items of the inbox after that.
        """
        return self.is_closed_by(task_id, self._files.get(open_marker_path(task_id)))

    def is_closed_by(self, task_id: str, marker: bytes | None) -> bool:
        """Return the same as `is_closed` for a task whose marker was read, which is None if there is none."""
        if marker is not None:
            return marker == CLOSED
        summary = self.get(task_id)
        return summary is not None and summary.status.ended


class StoredEvents:
    """The archived events of all tasks."""

    def __init__(self, files: Files, histories: Histories) -> None:
        self._files = files
        self._histories = histories

    def read(self, task_id: str, generation: str, after: int, before: int) -> Iterator[dict[str, Any]]:
        """Yield the events of this generation after one number and before another one, in order.

        The iterator ends early at an event that the workspace does not have. It fetches each segment when it needs it.
        """
        lines = self._lines(task_id, generation, after, before)
        return from_stored(lines, partial(self._histories.read, task_id))

    def _lines(self, task_id: str, generation: str, after: int, before: int) -> Iterator[dict[str, Any]]:
        progress = True
        while progress and after + 1 < before:
            progress = False
            for records in (self._in_segments(task_id, generation, after), self._in_file(task_id, generation, after)):
                for record in records:
                    if record["seq"] == after + 1:
                        after, progress = after + 1, True
                        yield record
                    if after + 1 >= before:
                        return
                if progress:  # look for the next one in the segments first: another worker may have archived more
                    break

    def _segments(self, task_id: str, generation: str, after: int) -> Iterator[str]:
        """Yield the paths of the segments from the last one that may begin with, or before, the next event."""
        places = segment_places(self._files.names(event_segments_path(task_id)))
        found = [first for of, first in places if of == generation]
        begin = max((first for first in found if first <= after + 1), default=0)
        for first in found:
            if begin and first >= begin:
                yield event_segment_path(task_id, generation, first)

    def _in_segments(self, task_id: str, generation: str, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events of these segments. Each is fetched whole: the limits of the logs bound its size."""
        for path in self._segments(task_id, generation, after):
            for line in io.BytesIO(self._files.get(path) or b""):
                try:
                    event = json.loads(line)
                except ValueError:
                    raise CorruptHistory(f"{path!r} holds an event that cannot be read") from None
                yield event

    def _in_file(self, task_id: str, generation: str, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events of `events.jsonl` after this number, up to the first gap.

        A merge that replaces the file meanwhile moves its lines. Then its size differs, and it is searched again.
        """
        path, size = events_path(task_id), None
        while (now := self._files.size(path)) not in (None, size):
            size = now
            with suppress(ValueError):  # a line was cut; one that cannot be read at all is reported as a lost event
                for line in lines_from(partial(self._part, path), size or 0, place_of, (generation, after + 1)):
                    if place_of(line) != (generation, after + 1):
                        break
                    after += 1
                    yield json.loads(line)

    def _part(self, path: str, start: int, length: int) -> bytes:
        return self._files.read(path, start, length) or b""


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

    def __init__(self, files: Files, origin: Mapping[str, str] = MappingProxyType({})) -> None:
        """`origin` names the release and the model server of this process, for readers of `team.json`."""
        self._files = files
        self._origin = origin
        self._just_frozen: dict[str, Team] = {}
        self.get = lru_cache(maxsize=1000)(self._read_team_of)
        self.fork_of = lru_cache(maxsize=1000)(self._read_fork)
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
