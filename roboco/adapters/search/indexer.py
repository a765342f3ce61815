"""Indexer: updates an index from its task's history. The cost of a new step grows only with its own length."""

from collections.abc import Callable, Iterator
from itertools import chain

from roboco.adapters.search.passage import MAX_BYTES, Passage, is_text, passages
from roboco.adapters.search.sqlite_index import IndexFile
from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.ports import Histories

ReadArtifact = Callable[[str, str, int], bytes | None]
"""Takes a task id, an artifact's name and a number of bytes; returns the first bytes, or None without an artifact."""
BATCH = 4000
"""Passages per transaction. Passages that are stored survive the death of the process."""


class Intake:
    """Adds the steps of one task to its index."""

    def __init__(self, histories: Histories, read_artifact: ReadArtifact, task_id: str, file: IndexFile) -> None:
        self._histories = histories
        self._read_artifact = read_artifact
        self._task_id = task_id
        self._file = file
        self._passages: list[Passage] = []
        self._uris: set[str] = set()

    def update(self) -> None:
        """Add all steps that the index lacks."""
        step: TaskStep | None = None
        for step in self._fresh():
            self._passages += passages(step, self._content)
            if len(self._passages) >= BATCH:
                self._store(step)
        if step is not None:
            self._store(step)

    def _store(self, newest: TaskStep) -> None:
        self._file.add(self._passages, self._uris, newest)
        self._passages.clear()
        self._uris.clear()

    def _fresh(self) -> Iterator[TaskStep]:
        """Return the steps after the newest one in the index.

        If the index belongs to another history, clear it and return all steps.
        """
        reached = self._file.reached()
        if reached is None:
            return self._read(0)
        steps = self._read(reached.seq + 1)
        step = next(steps, None)
        if step is not None and step.prev_digest == reached.digest:
            return chain([step], steps)
        if step is None:
            last = next(self._read(reached.seq), None)
            if last is not None and last.digest == reached.digest:
                return iter(())
        self._file.forget()
        return self._read(0)

    def _read(self, start: int) -> Iterator[TaskStep]:
        return self._histories.read(self._task_id, start)

    def _content(self, artifact: Artifact) -> str | None:
        """Return the artifact's text, or None if it is no text, does not exist, or is in the index already."""
        if not is_text(artifact.mime_type) or artifact.uri in self._uris or self._file.holds(artifact.uri):
            return None
        self._uris.add(artifact.uri)
        try:
            name = artifact.name
        except ValueError:  # a newer release may name artifacts in another way
            return None
        data = self._read_artifact(self._task_id, name, MAX_BYTES)
        return None if data is None else data[:MAX_BYTES].decode(errors="replace")
