"""TaskFiles: the files of a task."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from roboco.client.in_thread import SUBMISSIONS, in_thread
from roboco.client.task_handle import TaskHandle
from roboco.domain.history.part import Artifact
from roboco.domain.ids import check_task_id
from roboco.domain.paths import artifact_path, artifacts_path
from roboco.engine.workspace_records import check_not_erased
from roboco.errors import NotFound, UsageError
from roboco.workspace.artifacts.store import checked_name, find_artifact, iter_pieces, list_artifacts, read_artifact
from roboco.workspace.artifacts.stored_stream import upload

MAX_LINK_SECONDS: Final = 604_800
"""Seconds for which an S3 URL can be signed at most."""


class TaskFiles(TaskHandle):
    """The files that agents, tools and users have stored with a task."""

    def artifacts(self) -> list[Artifact]:
        """Return the task's files by name, each with its type, size, version and the step that wrote it."""
        return list_artifacts(self._engine.workspace.files, self.task_id)

    def artifact_page(self, after: str = "", limit: int = 100) -> list[Artifact]:
        """Return the first files whose names follow `after`, by name; fewer than `limit` are the last ones.

        Cost: a listing, and two requests to the store for each file.
        """
        names = self._engine.workspace.files.names_after(artifacts_path(self.task_id), after, limit)
        return [find_artifact(self._engine.workspace.files, self.task_id, name) for name in names]

    def artifact(self, name: str) -> bytes:
        """Return the bytes of a file. Raises UsageError if the task has no file of this name."""
        return read_artifact(self._engine.workspace.files, self.task_id, name)

    def artifact_info(self, name: str) -> Artifact:
        """Return the name, type, size and digest of a file. Raises UsageError if the task has no file of this name."""
        return find_artifact(self._engine.workspace.files, self.task_id, name)

    def artifact_bytes(self, name: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes of a file from a position on; fewer only at its end.

        Raises UsageError if the task has no file of this name.
        """
        path = artifact_path(self.task_id, checked_name(name))
        if (data := self._engine.workspace.files.read(path, start, length)) is None:
            raise NotFound(f"no artifact {name[:80]!r} in this task")
        return data

    def iter_artifact(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file of any size, piece by piece.

        Raises UsageError if the task has no file of this name.
        """
        return iter_pieces(
            self._engine.workspace.files, self.task_id, find_artifact(self._engine.workspace.files, self.task_id, name)
        )

    def artifact_url(self, name: str, seconds: int = 3600) -> str | None:
        """Return a URL that lets every holder read the file, or None if the workspace is a folder.

        The URL is valid for `seconds`, a week at most. Raises UsageError if the task has no file of this name.
        """
        if not 1 <= seconds <= MAX_LINK_SECONDS:
            raise UsageError(f"seconds: must be from 1 to {MAX_LINK_SECONDS}, a week (found {seconds})")
        artifact = find_artifact(self._engine.workspace.files, self.task_id, name)
        return self._engine.workspace.files.presigned_url(artifact_path(self.task_id, artifact.name), seconds)

    def upload(self, file: Path | BinaryIO, name: str | None = None) -> Artifact:
        """Store a file of any size with the task, and return it.

        A stream that cannot seek, such as the body of a request, is read once: it must return as many bytes as it is
        asked for, and fewer only at its end. If reading it fails, nothing is stored, and its error is raised.
        A message refers to it by name: `send(..., artifacts=[artifact.name])`. If the task has another file of the same
        name, both stay, and the new one gets a version number. The task need not be submitted yet.
        Raises UsageError if the file cannot be read, or if the task was erased.
        """
        check_not_erased(self._engine.workspace.files, check_task_id(self.task_id))
        return upload(self._engine.workspace.files, check_task_id(self.task_id), file, name)

    aartifacts = in_thread(artifacts)
    aartifact = in_thread(artifact)
    aupload = in_thread(upload, SUBMISSIONS)
