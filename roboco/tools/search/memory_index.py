"""MemoryIndex: searches all texts, calls, results and files of a task, through an index that the worker caches.

The index is derived: if it is missing, broken or of another history, it is rebuilt from the workspace.
"""

import importlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from roboco.domain.canonical_json import well_formed
from roboco.domain.history.step import TaskStep
from roboco.errors import TransientError
from roboco.ports.histories import Histories
from roboco.tools.search.analyzer import query_terms
from roboco.tools.search.index_cache import MAX_CACHE_BYTES, IndexCache, is_broken_file
from roboco.tools.search.indexer import Indexer, ReadFile
from roboco.tools.search.passage import step_passages
from roboco.tools.search.result import SearchFilters, SearchHit, SearchResult
from roboco.tools.search.sqlite_index import SqliteIndex
from roboco.tools.search.vector import Vector

_log = logging.getLogger(__name__)

BATCH_SIZE = 48
"""Maximum number of passages for which vectors are computed or requested at once."""
EMBEDDING_SECONDS = 10.0
"""Seconds for which a search waits for vectors. A thread of the process computes the rest."""
_MAX_HITS_PER_ARTIFACT, _MIN_DISTANCE = 3, 4000
"""Maximum number of hits in one artifact, and minimum number of characters between them."""
_CANDIDATES_PER_HIT = 20
"""Passages that are considered per hit: several may be of one step."""


class Embedder(Protocol):
    """Turns texts into vectors that point in the same direction if the texts mean the same."""

    @property
    def model(self) -> str:
        """Return the model and its endpoint: vectors of different models cannot be compared."""

    def query(self, text: str) -> "Vector | None":
        """Return the vector of a query, as `vectors` does."""

    def vectors(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector of length 1 for each text, None for one that the model does not accept.

        Raise TransientError if the vectors are not available soon.
        """


@dataclass(frozen=True)
class _Search:
    """One search: the original query and its terms."""

    task_id: str
    query: str
    terms: tuple[str, ...]
    limit: int
    filters: SearchFilters


_OpenIndex = Callable[[], AbstractContextManager[SqliteIndex]]


class MemoryIndex:
    """Ranked search over histories and the text artifacts of their steps.

    `workspace` distinguishes workspaces that share the folder; `capacity` is the maximum size of the folder in bytes.
    """

    def __init__(
        self,
        histories: Histories,
        read_file: ReadFile,
        folder: Path,
        embedder: Embedder | None = None,
        workspace: str = "",
        capacity: int = MAX_CACHE_BYTES,
    ) -> None:
        self._histories = histories
        self._read_file = read_file
        self._cache = IndexCache(folder, capacity)
        self._embedder = embedder
        self._workspace = workspace
        self._catching_up = threading.Lock()
        self._vectors: tuple[object, Any] = (None, None)

    def search(self, task_id: str, query: str, limit: int, filters: SearchFilters | None = None) -> SearchResult:
        """Return the best hits: one per step, or per neighbourhood in an artifact; the newest first among equals.

        Raise TransientError if the index cannot be used, even after a rebuild.
        """
        search = _Search(task_id, well_formed(query), query_terms(query), limit, filters or SearchFilters())
        if not search.terms or limit < 1:
            return SearchResult()
        try:
            return self._search(search)
        except sqlite3.Error as error:
            if not is_broken_file(error):
                raise TransientError(f"memory index of task {task_id!r} cannot be used: {error}") from error
            self._cache.remove(self._workspace, task_id)
        try:
            return self._search(search)
        except sqlite3.Error as error:
            raise TransientError(f"memory index of task {task_id!r} was made anew and is broken: {error}") from error

    def search_steps(self, steps: Sequence[TaskStep], query: str, limit: int) -> SearchResult:
        """Return the best of a few steps, ranked as by `search`. Their index is in memory, and is not kept."""
        search = _Search("", well_formed(query), query_terms(query), limit, SearchFilters())
        if not search.terms or not steps:
            return SearchResult()
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            passages = [passage for step in steps for passage in step_passages(step, lambda _: None)]
            index = SqliteIndex(database)
            return self._ranked(search, lambda: nullcontext(index), lambda file: file.add(passages, (), steps[-1]))

    def _search(self, search: _Search) -> SearchResult:
        def opened() -> AbstractContextManager[SqliteIndex]:
            return self._cache.open(self._workspace, search.task_id)

        def update(file: SqliteIndex) -> None:
            Indexer(self._histories, self._read_file, search.task_id, file).update()

        return self._ranked(search, opened, update)

    def _ranked(self, search: _Search, opened: _OpenIndex, update: Callable[[SqliteIndex], None]) -> SearchResult:
        """Return the result. The index is not locked while vectors are computed or requested."""
        query, note = self._query_vector(search.query)
        with opened() as file:
            update(file)
            if query is None or not file.without_vector(self._space(query), 1):
                return self._result(file, search, query, note)
        note = self._embed(query, opened, time.monotonic() + EMBEDDING_SECONDS)
        if note and search.task_id:
            threading.Thread(target=self._catch_up, args=(query, opened), daemon=True).start()
        with opened() as file:
            return self._result(file, search, query, note)

    def _result(self, file: SqliteIndex, search: _Search, query: "Vector | None", note: str) -> SearchResult:
        ranked = self._ranked_passages(file, search, query)
        return SearchResult(tuple(_select_hits(ranked, file.hit, search.limit)), note)

    def _ranked_passages(
        self, file: SqliteIndex, search: _Search, query: "Vector | None"
    ) -> Sequence[tuple[int, float]]:
        """Return the best passages with their scores: by words, and by meaning if the query has a vector."""
        most = search.limit * _CANDIDATES_PER_HIT
        scores: dict[int, float] = file.match(search.terms, search.filters, most)
        if query is not None and self._vectors[0] != (version := file.vectors_version()):
            self._vectors = (version, _numeric().PackedVectors(file.vectors(), len(query)))
        if query is not None:
            scores = self._vectors[1].best_scores(query, scores, file.filtered(search.filters), most)
        return sorted(scores.items(), key=lambda one: (-one[1], -one[0]))[:most]

    def _query_vector(self, query: str) -> "tuple[Vector | None, str]":
        """Return the vector of the query and "", or None and the reason."""
        if self._embedder is None:
            return None, ""
        try:
            vector = self._embedder.query(query)
        except TransientError as error:
            return None, f"ranked by words alone: {error}"
        return vector, "" if vector is not None else f"ranked by words alone: {self._embedder.model} refuses the query"

    def _space(self, vector: Vector) -> str:
        """Return the name of the space of the vectors: a model that gives them another length is another one."""
        return f"{self._embedder.model if self._embedder else ''} {len(vector)}"

    def _embed(self, query: Vector, opened: _OpenIndex, until: float) -> str:
        """Add a vector to each passage that has none. Return "" or why passages are found by words alone."""
        space, waiting = self._space(query), "passages without a vector were found by words alone"
        with opened() as file:
            texts = file.without_vector(space, BATCH_SIZE)
        while texts and self._embedder is not None:
            if time.monotonic() > until:
                return f"{waiting}: a later search has their vectors"
            try:
                found = self._embedder.vectors([text for _, text in texts])
            except TransientError as error:
                return f"{waiting}: {error}"
            accepted = [(number, one) for (number, _), one in zip(texts, found, strict=True) if one is not None]
            if any(len(one) != len(query) for _, one in accepted):
                return f"{waiting}: the vectors of {self._embedder.model} differ in length"
            packed = _numeric().pack(accepted) if accepted else b""
            with opened() as file:
                file.add_vectors(space, texts, packed)
                texts = file.without_vector(space, BATCH_SIZE)
        return ""

    def _catch_up(self, query: Vector, opened: _OpenIndex) -> None:
        """Add the vectors for which a search did not wait, of one task at a time."""
        if not self._catching_up.acquire(blocking=False):
            return
        try:
            if note := self._embed(query, opened, float("inf")):
                _log.warning("%s", note)
        except (sqlite3.Error, TransientError) as error:
            _log.warning("a later search computes the vectors of a history: %s", error)
        finally:
            self._catching_up.release()


def _numeric() -> Any:
    return importlib.import_module("roboco.tools.search.vectors")  # which imports numpy, of the extra `memory`


def _select_hits(
    ranked: Sequence[tuple[int, float]], stored: Callable[[int, float], SearchHit], limit: int
) -> Iterator[SearchHit]:
    """Yield at most `limit` hits, without repeating a step or a section of an artifact."""
    offsets_by_source: dict[object, list[int]] = {}
    shown: set[tuple[int, str]] = set()
    for number, score in ranked:
        hit = stored(number, score)
        offsets = offsets_by_source.setdefault(hit.artifact or hit.seq, [])
        offset = hit.offset or 0
        most = 1 if hit.artifact is None else _MAX_HITS_PER_ARTIFACT
        if len(offsets) >= most or any(abs(offset - other) < _MIN_DISTANCE for other in offsets):
            continue
        if (hit.seq, hit.snippet) in shown:
            continue
        offsets.append(offset)
        shown.add((hit.seq, hit.snippet))
        yield hit
        if len(shown) == limit:
            return
