"""MemoryIndex: searches all texts, calls, results and files of a task, through an index that the worker caches.

The index is derived: if it is missing, broken or of another history, it is rebuilt from the workspace.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from roboco.domain.history.step import TaskStep
from roboco.errors import TransientError
from roboco.ports.workspace import Histories
from roboco.tools.search.index_cache import MAX_CACHE_BYTES, IndexCache, is_broken_file
from roboco.tools.search.indexer import Indexer, ReadArtifact
from roboco.tools.search.passage import MAX_PASSAGE_CHARS, step_passages
from roboco.tools.search.query import Query, parse_query
from roboco.tools.search.rank_fusion import Embedder, fuse_rankings
from roboco.tools.search.result import SearchFilters, SearchHit, SearchResult
from roboco.tools.search.snippet import snippet
from roboco.tools.search.sqlite_index import PassageRef, SqliteIndex, StoredPassage
from roboco.tools.search.vector import cosine, text_hash

COMPOUND_WEIGHT = 0.3
"""The weight of a compound, or of a member of one, relative to the word itself."""
MAX_COMPARED, MAX_NEWEST = 60, 20
"""Maximum number of passages that are compared by meaning: the best by words, and the newest regardless of words."""
_MAX_HITS_PER_ARTIFACT = 3
"""Maximum number of hits in one artifact."""
_CANDIDATES_PER_HIT = 20
"""Passages that are fetched per hit: several may be of one step."""


@dataclass(frozen=True)
class _Search:
    """One search: the original query and its parsed form."""

    task_id: str
    query: str
    parsed: Query
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
        read_artifact: ReadArtifact,
        folder: Path,
        embedder: Embedder | None = None,
        workspace: str = "",
        capacity: int = MAX_CACHE_BYTES,
    ) -> None:
        self._histories = histories
        self._read_artifact = read_artifact
        self._cache = IndexCache(folder, capacity)
        self._embedder = embedder
        self._workspace = workspace

    def search(self, task_id: str, query: str, limit: int, filters: SearchFilters | None = None) -> SearchResult:
        """Return the best hits: one per step, or per neighbourhood in an artifact; the newest first among equals.

        Raise TransientError if the index cannot be used, even after a rebuild.
        """
        search = _Search(task_id, query, parse_query(query), limit, filters or SearchFilters())
        if not search.parsed.terms or limit < 1:
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
        search = _Search("", query, parse_query(query), limit, SearchFilters())
        if not search.parsed.terms or not steps:
            return SearchResult()
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            passages = [passage for step in steps for passage in step_passages(step, lambda _: None)]
            index = SqliteIndex(database)
            return self._ranked(search, lambda: nullcontext(index), lambda file: file.add(passages, (), steps[-1]))

    def _search(self, search: _Search) -> SearchResult:
        def opened() -> AbstractContextManager[SqliteIndex]:
            return self._cache.open(self._workspace, search.task_id)

        def update(file: SqliteIndex) -> None:
            Indexer(self._histories, self._read_artifact, search.task_id, file).update()

        return self._ranked(search, opened, update)

    def _ranked(self, search: _Search, opened: _OpenIndex, update: Callable[[SqliteIndex], None]) -> SearchResult:
        with opened() as file:
            update(file)
            by_words, words = _rank_by_words(file, search)
            if self._embedder is None:
                return SearchResult(tuple(_select_hits(by_words, file.passage, words, search.limit)))
            newest = file.newest(search.filters, MAX_NEWEST)
            stored = {place.id: file.passage(place.id) for place in (*by_words, *newest)}
        known = {place.id for place in by_words}
        compared = [*by_words[:MAX_COMPARED], *(place for place in newest if place.id not in known)]
        texts = {place.id: stored[place.id].text for place in compared}
        similarity, note = self._similarities(self._embedder, search, texts, opened)
        ranked = fuse_rankings(by_words, compared, similarity) if similarity else by_words
        return SearchResult(tuple(_select_hits(ranked, stored.__getitem__, words, search.limit)), note)

    def _similarities(
        self, embedder: Embedder, search: _Search, texts: dict[int, str], opened: _OpenIndex
    ) -> tuple[dict[int, float], str]:
        """Return the similarity of the query and each text by passage id, and ""; or nothing and the reason.

        The index is not locked during the requests to the endpoint.
        """
        hashes = {one: text_hash(text) for one, text in texts.items()}
        with opened() as file:
            vectors = file.vectors(embedder.model, set(hashes.values()))
        missing = {hashes[one]: text for one, text in texts.items() if hashes[one] not in vectors}
        try:
            query, *computed = embedder.vectors([search.query, *missing.values()])
        except TransientError as error:
            return {}, f"ranked by words alone: {error}"
        new_vectors = dict(zip(missing, computed, strict=True))
        if new_vectors:
            with opened() as file:
                file.store_vectors(embedder.model, new_vectors)
        vectors |= new_vectors
        return {one: cosine(query, vectors[key]) for one, key in hashes.items()}, ""


def _rank_by_words(file: SqliteIndex, search: _Search) -> tuple[list[PassageRef], set[str]]:
    """Return the passages with words of the query, best first, and the words that count: compounds count less."""
    query = search.parsed
    related = [*file.find_compounds(query.members), *query.compound_parts]
    max_passages = search.limit * _CANDIDATES_PER_HIT + MAX_COMPARED
    places = {place.id: place for place in file.match(query.terms, search.filters, max_passages)}
    for place in file.match(related, search.filters, max_passages):
        score = COMPOUND_WEIGHT * place.score + (places[place.id].score if place.id in places else 0.0)
        places[place.id] = place.with_score(score)
    best = sorted(places.values(), key=lambda place: (-place.score, -place.seq, place.id))
    return best[:max_passages], {*query.terms, *related}


def _select_hits(
    places: Sequence[PassageRef], stored: Callable[[int], StoredPassage], words: set[str], limit: int
) -> Iterator[SearchHit]:
    """Yield at most `limit` hits, without repeating a step or a section of an artifact."""
    offsets_by_source: dict[object, list[int]] = {}
    shown: set[tuple[int, str]] = set()
    for place in places:
        offsets = offsets_by_source.setdefault(place.uri or place.seq, [])
        offset = place.offset or 0
        most = 1 if place.uri is None else _MAX_HITS_PER_ARTIFACT
        if len(offsets) >= most or any(abs(offset - other) < 2 * MAX_PASSAGE_CHARS for other in offsets):
            continue
        hit = _to_hit(place, stored(place.id), words)
        if (hit.seq, hit.snippet) in shown:
            continue
        offsets.append(offset)
        shown.add((hit.seq, hit.snippet))
        yield hit
        if len(shown) == limit:
            return


def _to_hit(place: PassageRef, passage: StoredPassage, words: set[str]) -> SearchHit:
    start, shown = snippet(passage.text, words)
    return SearchHit(
        step_id=passage.step_id,
        seq=passage.seq,
        agent_name=passage.agent,
        part=passage.part,
        score=place.score,
        snippet=shown,
        created_at=datetime.fromtimestamp(passage.at, UTC),
        artifact=passage.uri,
        offset=None if passage.offset is None else passage.offset + start,
    )
