"""task_tar: an ended task as a tar.

    roboco-task.json ─► files/history.jsonl ─► files/... ─► roboco-manifest.json (size and digest of each file)

The tar is made as it is read, in bounded memory. Its members have no times and owners, so the same task has the same
bytes. Cost: a listing of the task's files, and a read for each 8 MiB of each file; the history is read twice.
"""

import hashlib
import tarfile
from collections.abc import Iterator
from typing import Final

from roboco.domain.paths import task_folder
from roboco.domain.removal.task_file import (
    FILES_PREFIX,
    FORMAT,
    HEADER_NAME,
    HISTORY_FILE,
    MANIFEST_NAME,
    MEMORY_FILE,
    TarFile,
    TarHeader,
    TarManifest,
    is_portable,
)
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record.closed import closed_summary
from roboco.engine.record.task_memory import memory_of, remembered_by
from roboco.errors import StateConflict, TransientError
from roboco.ports.workspace import Files, StoredFile

PIECE_BYTES: Final = 8 * 1024 * 1024
_BLOCK: Final = 512


def check_exportable(engine: Engine, task_id: str) -> None:
    """Wait until a task that has just ended is closed: followers know its end before, and so do readers of its result.

    Raise UsageError if there is no such task, or if it has not ended, and TransientError if it is not closed in time.
    """
    summary = closed_summary(engine, task_id)
    if not summary.status.ended:
        raise StateConflict(
            f"task {task_id!r} is {summary.status}: only an ended task can be exported, since two copies of an open "
            "one would both continue; stop it, or back up the whole workspace"
        )


def task_tar(workspace: WorkspaceRecords, task_id: str) -> Iterator[bytes]:
    """Yield the tar of the task. Raise TransientError if a file changes or disappears meanwhile."""
    header = TarHeader(format=FORMAT, task_id=task_id).model_dump_json().encode()
    yield from _member(HEADER_NAME, len(header), iter([header]))
    known = list[TarFile]()
    size = sum(len(line) + 1 for line in workspace.histories.lines(task_id))
    lines = (line + b"\n" for line in workspace.histories.lines(task_id))
    yield from _recorded(known, HISTORY_FILE, size, lines)
    folder = task_folder(task_id)
    if (memory := remembered_by(workspace, memory_of(workspace, task_id), task_id)).entries:
        text = memory.model_dump_json().encode()
        yield from _recorded(known, MEMORY_FILE, len(text), iter([text]))
    written = {file.path for file in known}
    for file in sorted(workspace.files.tree(folder), key=lambda one: one.path):
        path = file.path.removeprefix(folder)
        if path not in written and is_portable(path):
            yield from _recorded(known, path, file.size, _pieces(workspace.files, file))
    manifest = TarManifest(files=known).model_dump_json().encode()
    yield from _member(MANIFEST_NAME, len(manifest), iter([manifest]))
    yield b"\0" * (2 * _BLOCK)


def _recorded(known: list[TarFile], path: str, size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the member of a file, and add its record."""
    digest = hashlib.sha256()

    def hashed() -> Iterator[bytes]:
        for piece in pieces:
            digest.update(piece)
            yield piece

    yield from _member(FILES_PREFIX + path, size, hashed())
    known.append(TarFile(path=path, size=size, sha256=digest.hexdigest()))


def _member(name: str, size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a member of this size. Raise TransientError if the pieces have another one."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    yield info.tobuf(tarfile.PAX_FORMAT)
    left = size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise TransientError(f"{name!r} of the task changed while it was read; try again")
    yield b"\0" * (-size % _BLOCK)


def _pieces(files: Files, file: StoredFile) -> Iterator[bytes]:
    for start in range(0, file.size, PIECE_BYTES):
        yield files.read(file.path, start, PIECE_BYTES) or b""
