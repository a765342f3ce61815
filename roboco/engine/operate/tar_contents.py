"""tar_contents: the files of a tar that an export has written, verified as a whole before one is stored.

    tar ─► names, counts, sizes ─► digests, chain, artifacts ─► manifest ─► summary of its task

Run as a program, it verifies the tar on its standard input. A JSON value of 32 MB, or a hostile header of a tar, holds
the interpreter, and so all requests of a gateway, for seconds up to minutes. The program has a process for that, with
limits of memory and time.
"""

import hashlib
import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, Final

from pydantic import ValidationError

from roboco.domain.history.part import Artifact
from roboco.domain.history.step import verify_chain
from roboco.domain.ids import check_task_id
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
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory, UsageError

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 64 * 1024**3
"""Bytes of a tar."""
MAX_RECORD_BYTES: Final = 32 * 1024**2
"""Bytes of a file that is read into memory: a team, the description of an artifact."""
MAX_HISTORY_BYTES: Final = 512 * 1024**2
PIECE_BYTES: Final = 1024**2
_MAX_SUMMARY_BYTES: Final = 1024**2
_MEMORY: Final = 1024**3
"""Bytes of the process that verifies a tar."""
_SECONDS: Final = 300
"""Processor time of that process."""


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


def verified(source: BinaryIO) -> TaskSummary:
    """Return the summary of the task in the tar, which a process verifies. The source must be seekable.

    Raise UsageError if the tar is not one of a whole, unchanged, ended task, or takes too much memory or time.
    """
    with _as_file(source) as descriptor:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, str(_MEMORY), str(_SECONDS)],
            env={"PYTHONPATH": os.pathsep.join(sys.path)},  # and no secret of this process
            stdin=descriptor,
            stdout=subprocess.PIPE,
            check=False,
        )
        os.lseek(descriptor, place, os.SEEK_SET)  # processes share it
    if done.returncode < 0:
        raise _refused(f"it takes over {_SECONDS} s, or {_MEMORY:,} bytes of memory, to verify")
    if done.returncode and done.stdout:
        raise UsageError(done.stdout.decode())
    done.check_returncode()
    return TaskSummary.model_validate_json(done.stdout)


@contextmanager
def _as_file(source: BinaryIO) -> Iterator[int]:
    """Yield the descriptor of the source, or of a copy if it is no file."""
    source.seek(0)
    try:
        yield source.fileno()
    except io.UnsupportedOperation:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            yield copy.fileno()


def verify(source: BinaryIO) -> TaskSummary:
    """Return the summary of the task in the tar. Raise UsageError if anything of the tar is wrong."""
    contents, manifest = _Contents(), None
    with reading_tar():
        for number, (path, member) in enumerate(members(source)):
            if manifest is not None:
                raise _refused(f"{path!r} follows the manifest")
            if (number == 0) != (path == HEADER_NAME):
                raise _refused(f"its first file must be {HEADER_NAME}")
            if path == HEADER_NAME:
                header = _parsed(TarHeader, path, member.read())
                if header.format != FORMAT:
                    raise _refused(f"it has format {header.format}, and this release reads format {FORMAT}")
                contents.task_id = check_task_id(header.task_id)
            elif path == MANIFEST_NAME:
                manifest = _parsed(TarManifest, path, member.read())
            else:
                _verify_file(contents, path, member)
    if manifest is None:
        raise _refused("its manifest is missing: it is truncated")
    return _compared(contents, manifest)


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
        _parsed(Team, path, hashed.read(), extra="ignore")  # `origin`, and fields of a later release
    elif path.startswith("artifact_info/"):
        info = _parsed(Artifact, path, hashed.read())
        contents.artifacts[path.removeprefix("artifact_info/").removesuffix(".json")] = info
    hashed.drain()
    contents.files[path] = _Found(hashed.size, hashed.digest.hexdigest())


def _compared(contents: _Contents, manifest: TarManifest) -> TaskSummary:
    """Return the summary. Raise UsageError if files are missing, changed, or those of another task."""
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
    return summary


def members(source: BinaryIO) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of each member. Raise UsageError if the tar holds anything but plain files of a task.

    Sizes are checked before content is read.
    """
    names, total = set[str](), 0
    source.seek(0)
    with tarfile.open(fileobj=source, mode="r:") as tar:
        while (info := tar.next()) is not None:
            path, total = _checked(info), total + info.size
            if path in names or len(names) >= MAX_FILES or total > MAX_BYTES:
                raise _refused(f"it holds {path!r} twice, over {MAX_FILES:,} files, or over {MAX_BYTES:,} bytes")
            names.add(path)
            if (member := tar.extractfile(info)) is not None:
                yield path, member


@contextmanager
def reading_tar() -> Iterator[None]:
    """Raise UsageError if the tar cannot be read."""
    try:
        yield
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise _refused(f"it cannot be read: {error}") from error


def _checked(info: tarfile.TarInfo) -> str:
    """Return the path of the member. Raise UsageError if it is no plain file with the name of a task's file."""
    name = info.name
    if info.type != tarfile.REGTYPE or not info.pax_headers.keys() <= {"path", "size"}:
        raise _refused(f"{name[:120]!r} is no plain file of a task")
    path = name.removeprefix(FILES_PREFIX) if name.startswith(FILES_PREFIX) else ""
    if name not in (HEADER_NAME, MANIFEST_NAME) and not is_portable(path):
        raise _refused(f"{name[:120]!r} is no plain file of a task")
    limit = MAX_BYTES
    if path == HISTORY_FILE:
        limit = MAX_HISTORY_BYTES
    elif path == SUMMARY_FILE:
        limit = _MAX_SUMMARY_BYTES
    elif not path or path == TEAM_FILE or path.startswith("artifact_info/"):
        limit = MAX_RECORD_BYTES
    if not 0 <= info.size <= limit:
        raise _refused(f"{name!r} has {info.size:,} bytes, at most {limit:,} are allowed")
    return path or name


def record_of(source: BinaryIO, wanted: str) -> bytes:
    return next(member.read() for path, member in members(source) if path == wanted)


def _parsed(model: Any, path: str, data: bytes, **options: Any) -> Any:
    try:
        return model.model_validate_json(data, **options)
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
                raise tarfile.ReadError(f"a line has more than {MAX_RECORD_BYTES:,} bytes")
            self.digest.update(line)
            self.size += len(line)
            yield line

    def drain(self) -> None:
        """Read the rest."""
        while data := self._member.read(PIECE_BYTES):
            self.digest.update(data)
            self.size += len(data)


def _main() -> int:
    """Write the summary of the verified tar, or the reason why it is refused, to the standard output."""
    for limit, most in zip((resource.RLIMIT_DATA, resource.RLIMIT_CPU), map(int, sys.argv[1:]), strict=True):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        sys.stdout.write(verify(sys.stdin.buffer).model_dump_json())
    except UsageError as error:
        sys.stdout.buffer.write(str(error).encode(errors="backslashreplace"))
        return 1
    except MemoryError:
        os.abort()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
