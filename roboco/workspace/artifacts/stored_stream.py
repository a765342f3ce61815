"""stored_stream: store a file of a caller, or a stream that can be read once, such as the body of a request.

    seekable file ─► digest ─► version claimed ─► artifacts/NAME
    stream ─► uploads/TIME-ID, digest on the way ─► version claimed ─► copy to artifacts/NAME ─► remove
              (put)                                 (create)           (put)

The digest of a version is stored before its bytes, and a stream has none before its end. So the bytes wait under a name
that no reader knows. If the stream fails, they are removed. If the process dies, they stay, and the next stream of the
task removes them once they are older than MAX_UPLOAD_SECONDS. A copy within S3 moves no bytes through this process.
"""

import hashlib
import io
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from roboco.domain.history.part import Artifact
from roboco.domain.paths import upload_path, uploads_path
from roboco.errors import TransientError, UsageError
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.mime import HEAD_BYTES
from roboco.workspace.artifacts.store import Content, NewArtifact, checked_name, place_content, store_artifact

_log = logging.getLogger(__name__)
MAX_UPLOAD_SECONDS: Final = 86_400
"""Seconds after which an upload counts as abandoned by a process that died."""
MAX_LISTED: Final = 100
"""Abandoned uploads that one stream removes."""


def upload(files: Files, task_id: str, file: Path | BinaryIO, name: str | None = None) -> Artifact:
    """Store the file with the task, and return it. Raises UsageError if it cannot be read, or for an invalid name."""
    if isinstance(file, Path):
        try:
            with file.open("rb") as source:
                return store_artifact(files, task_id, NewArtifact(name or file.name), source)
        except OSError as error:
            raise UsageError(f"file {str(file)!r} cannot be read: {error.strerror}") from error
    if name is None:
        raise UsageError("name: is missing; name the file")
    store = store_artifact if file.seekable() else store_stream
    return store(files, task_id, NewArtifact(name), file)


def store_stream(files: Files, task_id: str, written: NewArtifact, source: BinaryIO) -> Artifact:
    """Store the rest of the source as `store_artifact` does, without reading it twice or holding it in memory.

    Raise the source's error if it fails, and leave nothing behind.
    """
    checked_name(written.name)
    _remove_abandoned(files, task_id)
    with _temporary(files, task_id) as path:
        hashing = _Hashing(source)
        files.put_from(path, cast(BinaryIO, hashing))
        return place_content(files, task_id, written, hashing.content, lambda place: files.copy(path, place))


class _Hashing(io.RawIOBase):
    """A source that computes the digest of the bytes that are read from it."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source = source
        self._digest = hashlib.sha256()
        self._size = 0
        self._head = b""

    @property
    def content(self) -> Content:
        """The content that has been read so far."""
        return Content(self._digest.hexdigest(), self._size, self._head)

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, fewer only at the end: S3 refuses short parts."""
        data = self._source.read(size)
        self._digest.update(data)
        self._size += len(data)
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        return data


@contextmanager
def _temporary(files: Files, task_id: str) -> Iterator[str]:
    """Yield the path of a new upload, and remove it afterwards. An error of the removal hides no other error."""
    path = upload_path(task_id, f"{int(time.time())}-{uuid.uuid4().hex}")
    try:
        yield path
    except BaseException:
        _remove(files, path)
        raise
    _remove(files, path)


def _remove_abandoned(files: Files, task_id: str) -> None:
    oldest = time.time() - MAX_UPLOAD_SECONDS
    for name in files.names_after(uploads_path(task_id), "", MAX_LISTED):
        begun = name.partition("-")[0]
        if begun.isdigit() and int(begun) < oldest:
            _remove(files, upload_path(task_id, name))


def _remove(files: Files, path: str) -> None:
    """Remove an upload. If the store does not answer, it stays, and a later upload removes it."""
    try:
        files.delete(path)
    except TransientError as error:
        _log.warning("%s stays until the next upload to its task after a day: %s", path, error)
