"""Uploads: files that a caller gives a task."""

from pathlib import Path
from typing import BinaryIO

from roboco.adapters.artifacts.store import Written, store_artifact
from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.ports import Files


def upload(files: Files, task_id: str, file: Path | BinaryIO, name: str | None = None) -> Artifact:
    """Store the file with the task; UsageError if it cannot be read, or has no name that an artifact may have."""
    if isinstance(file, Path):
        try:
            with file.open("rb") as source:
                return store_artifact(files, task_id, Written(name or file.name), source)
        except OSError as error:
            raise UsageError(f"file {str(file)!r} cannot be read: {error.strerror}") from error
    if name is None:
        raise UsageError("name: is missing, say under which name the file is kept")
    if not file.seekable():
        raise UsageError(f"file {name!r} must be one that can be read twice: store it in a temporary file first")
    return store_artifact(files, task_id, Written(name), file)
