"""Indexer: updates an index from its task's history. The cost of a new step grows only with its own length."""

from collections.abc import Callable, Iterator
from itertools import chain

from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.domain.paths import artifact_path
from roboco.ports.histories import Histories
from roboco.tools.search.passage import MAX_INDEXED_BYTES, Passage, step_passages
from roboco.tools.search.sqlite_index import SqliteIndex
from roboco.workspace.artifacts.mime import is_text

ReadFile = Callable[[str, int, int], bytes | None]
"""Reads a part of a file of the workspace, as `Files.read` does."""
BATCH_SIZE = 4000
"""Passages per transaction. Passages that are stored survive the death of the process."""


class Indexer:
    """Adds the steps of one task to its index."""

    def __init__(self, histories: Histories, read_file: ReadFile, task_id: str, index: SqliteIndex) -> None:
        self._histories = histories
        self._read_file = read_file
        self._task_id = task_id
        self._index = index
        self._passages: list[Passage] = []
        self._uris: set[str] = set()

    def update(self) -> None:
        """Add all steps that the index lacks."""
        step: TaskStep | None = None
        for step in self._new_steps():
            self._passages += step_passages(step, self._artifact_text)
            if len(self._passages) >= BATCH_SIZE:
                self._store(step)
        if step is not None:
            self._store(step)

    def _store(self, newest: TaskStep) -> None:
        self._index.add(self._passages, self._uris, newest)
        self._passages.clear()
        self._uris.clear()

    def _new_steps(self) -> Iterator[TaskStep]:
        """Return the steps after the newest one in the index.

        If the index belongs to another history, clear it and return all steps.
        """
        newest = self._index.newest_step()
        if newest is None:
            return self._read(0)
        steps = self._read(newest.seq + 1)
        step = next(steps, None)
        if step is not None and step.prev_digest == newest.digest:
            return chain([step], steps)
        if step is None:
            last = next(self._read(newest.seq), None)
            if last is not None and last.digest == newest.digest:
                return iter(())
        self._index.clear()
        return self._read(0)

    def _read(self, start: int) -> Iterator[TaskStep]:
        return self._histories.read(self._task_id, start)

    def _artifact_text(self, artifact: Artifact) -> str | None:
        """Return the artifact's text, or None if it is no text, does not exist, or is in the index already."""
        if not is_text(artifact.mime_type) or artifact.uri in self._uris or self._index.has_artifact(artifact.uri):
            return None
        self._uris.add(artifact.uri)
        try:
            path = artifact_path(self._task_id, artifact.name)
        except ValueError:  # a newer release may name artifacts in another way
            return None
        data = self._read_file(path, 0, MAX_INDEXED_BYTES)
        return None if data is None else data.decode(errors="replace")
