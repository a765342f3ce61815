"""Uploads: files that a caller stores with a task.

    file, seekable      ─► digest ─► version claimed ─► artifacts/NAME
    stream, read once   ─► uploads/ID, digest on the way ─► version claimed ─► copied to artifacts/NAME ─► removed

If a stream ends with an error, `uploads/ID` is removed, and S3 drops the parts. If the process dies, the rest stays
until the next stream for the task, which removes those that are older than a day. No reader sees it.
"""

from pathlib import Path
from typing import BinaryIO

from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.store import NewArtifact, store_artifact
from roboco.workspace.artifacts.stored_stream import store_stream


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
    if not file.seekable():
        return store_stream(files, task_id, NewArtifact(name), file)
    return store_artifact(files, task_id, NewArtifact(name), file)
