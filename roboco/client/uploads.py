"""Uploads: files that a caller stores with a task."""

from pathlib import Path
from typing import BinaryIO

from roboco.adapters.artifacts.store import NewArtifact, store_artifact
from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.ports.workspace import Files


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
        raise UsageError(f"file {name!r} must be seekable, since it is read twice: store it in a temporary file first")
    return store_artifact(files, task_id, NewArtifact(name), file)
