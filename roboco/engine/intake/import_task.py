"""import_task: store a task that a tar holds, unless its id is known.

    tar ─► names, counts, sizes ─► digests, chain, artifacts ─► team.json, history ─► files ─► tombstone ─► task.json
           (nothing is written before all of it is verified)     (create)             (put)    (delete)     (create)

Team and history claim the id: no file of another task is replaced. `task.json` is written last: without it no reader
finds the task. If the process dies before, the same import, sent again, continues. An ended task starts nothing: it has
no open marker and no entry in the schedule. If the archived task is erased meanwhile, the erasure counts.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, Final, cast

from pydantic import ValidationError

from roboco.domain.history.part import Artifact
from roboco.domain.history.step import verify_chain
from roboco.domain.ids import check_task_id
from roboco.domain.paths import ERASE_PREFIX, erasure_path, summary_path, task_folder, team_path, tombstone_path
from roboco.domain.removal.task_file import (
    FILES_PREFIX,
    FORMAT,
    HEADER_NAME,
    HISTORY_FILE,
    MANIFEST_NAME,
    SUMMARY_FILE,
    TEAM_FILE,
    TarHeader,
    TarManifest,
    is_portable,
)
from roboco.domain.task_entry import entry_of
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.intake.tar_reader import TarMember, UnreadableTar, members_of
from roboco.engine.task_entries import put_entry
from roboco.engine.tombstones import erased_error, receipt_of
from roboco.errors import CorruptHistory, Erased, StateConflict, UsageError

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 64 * 1024**3
"""Bytes of a tar."""
MAX_RECORD_BYTES: Final = 32 * 1024**2
"""Bytes of a file that is read into memory: a summary, a team, the description of an artifact."""
MAX_HISTORY_BYTES: Final = 512 * 1024**2
PIECE_BYTES: Final = 1024**2


@dataclass(frozen=True)
class _Found:
    size: int
    sha256: str


@dataclass
class _Contents:
    """The verified contents of a tar."""

    task_id: str = ""
    files: dict[str, _Found] = field(default_factory=dict)
    summary: TaskSummary | None = None
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    steps: int = 0


def import_task(engine: Engine, source: BinaryIO, check: Callable[[str], object] = check_task_id) -> TaskSummary:
    """Store the task of the tar, and return its summary. The source must be seekable. `check` may refuse the task's id.

    Raise UsageError, and store nothing, if the tar is not one of a whole, unchanged, ended task, or if its id exists.
    """
    with _reading_tar():
        contents = _verify(source, check)
    if contents.summary is None:
        raise _refused(f"it holds no {SUMMARY_FILE}")
    task_id = contents.task_id
    _check_free(engine, task_id)
    with _reading_tar():
        _store(engine, source, task_id)
        summary = _record_of(source, SUMMARY_FILE)
    engine.files.delete(tombstone_path(task_id))  # of an archived task
    _put_record(engine, summary_path(task_id), summary)
    put_entry(engine, entry_of(contents.summary))
    _yield_to_erasure(engine, task_id)
    return contents.summary


def _check_free(engine: Engine, task_id: str) -> None:
    if engine.files.size(summary_path(task_id)) is not None:
        raise StateConflict(
            f"task {task_id!r} exists in this workspace, and stays as it is: to read that of the tar beside it, import "
            "it into another workspace"
        )
    receipt = receipt_of(engine.files, task_id)
    if receipt is not None and receipt.status != "archived":
        raise erased_error(engine.files, task_id) or StateConflict(f"task {task_id!r} was erased")
    if engine.files.size(erasure_path(task_id)) is not None:
        raise StateConflict(
            f"task {task_id!r} was archived or erased within a day, and late files are still removed; import it a day "
            "later"
        )


def _yield_to_erasure(engine: Engine, task_id: str) -> None:
    """Raise Erased if an erasure was requested meanwhile, after having a coordinator remove what was stored."""
    if engine.files.size(erasure_path(task_id)) is not None:
        engine.schedule.set(f"{ERASE_PREFIX}{task_id}")
        raise Erased(f"task {task_id!r} was erased while it was imported; what was imported is removed")


def _store(engine: Engine, source: BinaryIO, task_id: str) -> None:
    """Store all files but `task.json`. The team and the history are first: they claim the id."""
    _put_record(engine, team_path(task_id), _record_of(source, TEAM_FILE))
    lines = next(list(member) for path, member in _members(source) if path == HISTORY_FILE)
    if not engine.histories.create(task_id, [line.removesuffix(b"\n") for line in lines]):
        raise StateConflict(f"task {task_id!r} has another history in this workspace")
    for path, member in _members(source):
        if path not in (TEAM_FILE, SUMMARY_FILE, HISTORY_FILE, HEADER_NAME, MANIFEST_NAME):
            engine.files.put_from(task_folder(task_id) + path, cast(BinaryIO, member))


def _put_record(engine: Engine, path: str, data: bytes) -> None:
    if not engine.files.create(path, data):
        raise StateConflict(f"{path} exists in this workspace with other content; the task is not imported")


def _verify(source: BinaryIO, check: Callable[[str], object]) -> _Contents:
    """Return the contents of the tar. Raise UsageError if anything of it is wrong."""
    contents, manifest = _Contents(), None
    for number, (path, member) in enumerate(_members(source)):
        if manifest is not None:
            raise _refused(f"{path!r} follows the manifest")
        if (number == 0) != (path == HEADER_NAME):
            raise _refused(f"its first file must be {HEADER_NAME}")
        if path == HEADER_NAME:
            header = _parsed(TarHeader, path, member.read())
            if header.format != FORMAT:
                raise _refused(f"it has format {header.format}, and this release reads format {FORMAT}")
            check(check_task_id(header.task_id))
            contents.task_id = header.task_id
        elif path == MANIFEST_NAME:
            manifest = _parsed(TarManifest, path, member.read())
        else:
            _verify_file(contents, path, member)
    if manifest is None:
        raise _refused("its manifest is missing: it is truncated")
    _compare(contents, manifest)
    return contents


def _verify_file(contents: _Contents, path: str, member: IO[bytes]) -> None:
    """Note size and digest of the file, and check those that the product reads."""
    hashed = _Hashed(member)
    if path == HISTORY_FILE:
        try:
            contents.steps = verify_chain(line.removesuffix(b"\n") for line in hashed)
        except (CorruptHistory, ValueError, RecursionError) as error:
            raise _refused(f"its history is broken: {error}") from error
    elif path == SUMMARY_FILE:
        contents.summary = _parsed(TaskSummary, path, hashed.read())
    elif path == TEAM_FILE:
        _parsed(Team, path, hashed.read())
    elif path.startswith("artifact_info/"):
        info = _parsed(Artifact, path, hashed.read())
        contents.artifacts[path.removeprefix("artifact_info/").removesuffix(".json")] = info
    hashed.drain()
    contents.files[path] = _Found(hashed.size, hashed.digest.hexdigest())


def _compare(contents: _Contents, manifest: TarManifest) -> None:
    named = {file.path: _Found(file.size, file.sha256) for file in manifest.files}
    if len(named) != len(manifest.files) or named.keys() != contents.files.keys():
        raise _refused("its files are not those of its manifest")
    for path, found in contents.files.items():
        if named[path] != found:
            raise _refused(f"{path!r} was changed: its size or digest differs from the manifest")
    summary = contents.summary
    if summary is None or TEAM_FILE not in named or contents.steps == 0:
        raise _refused(f"it lacks {SUMMARY_FILE}, {TEAM_FILE} or {HISTORY_FILE}")
    if summary.task_id != contents.task_id or not summary.status.ended or summary.steps != contents.steps:
        raise _refused(f"{SUMMARY_FILE} is not the summary of this task, or the task has not ended")
    for name, info in contents.artifacts.items():
        stored = contents.files.get(f"artifacts/{name}")
        if stored is not None and stored != _Found(info.size, info.sha256):
            raise _refused(f"artifact {name!r} was changed: its size or digest differs from its description")


def _members(source: BinaryIO) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of each member. Raise UsageError if the tar holds anything but plain files of a task.

    Sizes are checked before content is read.
    """
    names, total = set[str](), 0
    for member in members_of(source):
        path, total = _checked(member), total + member.size
        if path in names or len(names) >= MAX_FILES or total > MAX_BYTES:
            raise _refused(f"it holds {path!r} twice, over {MAX_FILES:,} files, or over {MAX_BYTES:,} bytes")
        names.add(path)
        yield path, member.open(source)


@contextmanager
def _reading_tar() -> Iterator[None]:
    """Raise UsageError if the tar cannot be read."""
    try:
        yield
    except (UnreadableTar, RecursionError) as error:
        raise _refused(f"it cannot be read: {error}") from error


def _checked(info: TarMember) -> str:
    """Return the path of the member. Raise UsageError if it is no plain file with the name of a task's file."""
    name = info.name
    path = name.removeprefix(FILES_PREFIX) if name.startswith(FILES_PREFIX) else ""
    if name not in (HEADER_NAME, MANIFEST_NAME) and not is_portable(path):
        raise _refused(f"{name[:120]!r} is no plain file of a task")
    limit = MAX_BYTES
    if path == HISTORY_FILE:
        limit = MAX_HISTORY_BYTES
    elif not path or path in (SUMMARY_FILE, TEAM_FILE) or path.startswith("artifact_info/"):
        limit = MAX_RECORD_BYTES
    if not 0 <= info.size <= limit:
        raise _refused(f"{name!r} has {info.size:,} bytes, at most {limit:,} are allowed")
    return path or name


def _record_of(source: BinaryIO, wanted: str) -> bytes:
    return next(member.read() for path, member in _members(source) if path == wanted)


def _parsed(model: Any, path: str, data: bytes) -> Any:
    try:
        return model.model_validate_json(data)
    except (ValidationError, RecursionError) as error:
        raise _refused(f"{path!r} cannot be read: {error.__class__.__name__}") from error


def _refused(mistake: str) -> UsageError:
    return UsageError(f"this is not the tar of a task: {mistake}; nothing was imported")


class _Hashed:
    """A member of which the digest is computed as it is read."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member
        self.digest = hashlib.sha256()
        self.size = 0

    def read(self) -> bytes:
        """Return the whole member, whose size is bounded."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        while line := self._member.readline(MAX_RECORD_BYTES + 1):
            if len(line) > MAX_RECORD_BYTES:
                raise UnreadableTar(f"a line has more than {MAX_RECORD_BYTES:,} bytes")
            self.digest.update(line)
            self.size += len(line)
            yield line

    def drain(self) -> None:
        """Read the rest."""
        while data := self._member.read(PIECE_BYTES):
            self.digest.update(data)
            self.size += len(data)
