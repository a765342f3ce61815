"""Intake: brings an index up to its task's history. A new step costs its own length."""

from collections.abc import Callable, Iterator
from itertools import chain

from roboco.adapters.search.passage import MAX_BYTES, Passage, is_text, passages
from roboco.adapters.search.sqlite_index import IndexFile
from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.ports import Histories

ReadArtifact = Callable[[str, str, int], bytes | None]
"""Of a task, an artifact's name: at most so many of its first bytes; None if there is no such artifact."""
BATCH = 4000
"""Passages that are stored at once. What is stored need not be made again if the process dies."""


class Intake:
    """Takes the steps of one task into its index."""

    def __init__(self, histories: Histories, read_artifact: ReadArtifact, task_id: str, file: IndexFile) -> None:
        self._histories = histories
        self._read_artifact = read_artifact
        self._task_id = task_id
        self._file = file
        self._passages: list[Passage] = []
        self._uris: set[str] = set()

    def update(self) -> None:
        """Take in what the history has and the index has not."""
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
        """The steps that follow what the index has; all, and the index empty, if it is of another history."""
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
        """What stands in the artifact, if it is a text that is there and was not taken in before."""
        if not is_text(artifact.mime_type) or artifact.uri in self._uris or self._file.holds(artifact.uri):
            return None
        self._uris.add(artifact.uri)
        try:
            name = artifact.name
        except ValueError:  # a newer release may name artifacts in another way
            return None
        data = self._read_artifact(self._task_id, name, MAX_BYTES)
        return None if data is None else data[:MAX_BYTES].decode(errors="replace")
