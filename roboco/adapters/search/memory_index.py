"""MemoryIndex: searches all texts, calls, results and files of a task, through an index that the worker caches.

The index is derived: if it is missing, broken or of another history, it is rebuilt from the workspace.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from roboco.adapters.search.hit import Filters, Found, Hit
from roboco.adapters.search.index_cache import CAPACITY, Shelf, is_broken
from roboco.adapters.search.indexer import Intake, ReadArtifact
from roboco.adapters.search.passage import LENGTH
from roboco.adapters.search.query import Asked, asked
from roboco.adapters.search.rank_fusion import SemanticRank, fused
from roboco.adapters.search.snippet import snippet
from roboco.adapters.search.sqlite_index import IndexFile, Place, Stored
from roboco.adapters.search.vector import cosine, hash_of
from roboco.errors import TransientError
from roboco.ports import Histories

COMPOUND_WEIGHT = 0.3
"""The weight of a compound, or of a member of one, relative to the word itself."""
RANKED, NEWEST = 60, 20
"""Maximum number of passages that are compared by meaning: the best by words, and the newest regardless of words."""
_OF_ONE = 3
"""Maximum number of hits in one artifact."""
_SPARE = 20
"""Passages that are fetched per hit: several may be of one step."""


@dataclass(frozen=True)
class _Wanted:
    """One search: the original query and its parsed form."""

    task_id: str
    query: str
    asked: Asked
    limit: int
    filters: Filters


class MemoryIndex:
    """Ranked search over histories and the text artifacts of their steps.

    `workspace` distinguishes workspaces that share the folder; `capacity` is the maximum size of the folder in bytes.
    """

    def __init__(
        self,
        histories: Histories,
        read_artifact: ReadArtifact,
        folder: Path,
        rank: SemanticRank | None = None,
        workspace: str = "",
        capacity: int = CAPACITY,
    ) -> None:
        self._histories = histories
        self._read_artifact = read_artifact
        self._shelf = Shelf(folder, capacity)
        self._rank = rank
        self._workspace = workspace

    def search(self, task_id: str, query: str, limit: int, filters: Filters | None = None) -> Found:
        """Return the best hits: one per step, or per neighbourhood in an artifact; the newest first among equals.

        Raise TransientError if the index cannot be used, even after a rebuild.
        """
        wanted = _Wanted(task_id, query, asked(query), limit, filters or Filters())
        if not wanted.asked.terms or limit < 1:
            return Found()
        try:
            return self._search(wanted)
        except sqlite3.Error as error:
            if not is_broken(error):
                raise TransientError(f"memory index of task {task_id!r} cannot be used: {error}") from error
            self._shelf.remove(self._workspace, task_id)
        try:
            return self._search(wanted)
        except sqlite3.Error as error:
            raise TransientError(f"memory index of task {task_id!r} was made anew and is broken: {error}") from error

    def _search(self, wanted: _Wanted) -> Found:
        with self._shelf.opened(self._workspace, wanted.task_id) as file:
            Intake(self._histories, self._read_artifact, wanted.task_id, file).update()
            by_words, words = _by_words(file, wanted)
            if self._rank is None:
                return Found(tuple(_hits(by_words, file.stored, words, wanted.limit)))
            newest = file.newest(wanted.filters, NEWEST)
            stored = {place.id: file.stored(place.id) for place in (*by_words, *newest)}
        known = {place.id for place in by_words}
        compared = [*by_words[:RANKED], *(place for place in newest if place.id not in known)]
        texts = {place.id: stored[place.id].text for place in compared}
        likeness, note = self._likeness(self._rank, wanted, texts)
        ranked = fused(by_words, compared, likeness) if likeness else by_words
        return Found(tuple(_hits(ranked, stored.__getitem__, words, wanted.limit)), note)

    def _likeness(self, rank: SemanticRank, wanted: _Wanted, texts: dict[int, str]) -> tuple[dict[int, float], str]:
        """Return the similarity of the query and each text by passage id, and ""; or nothing and the reason.

        The index is not locked during the requests to the endpoint.
        """
        hashes = {one: hash_of(text) for one, text in texts.items()}
        with self._shelf.opened(self._workspace, wanted.task_id) as file:
            vectors = file.vectors(rank.model, set(hashes.values()))
        missing = {hashes[one]: text for one, text in texts.items() if hashes[one] not in vectors}
        try:
            query, *made = rank.vectors([wanted.query, *missing.values()])
        except TransientError as error:
            return {}, f"ranked by words alone: {error}"
        fresh = dict(zip(missing, made, strict=True))
        if fresh:
            with self._shelf.opened(self._workspace, wanted.task_id) as file:
                file.keep_vectors(rank.model, fresh)
        vectors |= fresh
        return {one: cosine(query, vectors[key]) for one, key in hashes.items()}, ""


def _by_words(file: IndexFile, wanted: _Wanted) -> tuple[list[Place], set[str]]:
    """Return the passages with words of the query, best first, and the words that count: compounds count less."""
    query = wanted.asked
    related = [*file.compounds(query.members), *query.pieces]
    most = wanted.limit * _SPARE + RANKED
    places = {place.id: place for place in file.places(query.terms, wanted.filters, most)}
    for place in file.places(related, wanted.filters, most):
        score = COMPOUND_WEIGHT * place.score + (places[place.id].score if place.id in places else 0.0)
        places[place.id] = place.scored(score)
    best = sorted(places.values(), key=lambda place: (-place.score, -place.seq, place.id))
    return best[:most], {*query.terms, *related}


def _hits(places: Sequence[Place], stored: Callable[[int], Stored], words: set[str], limit: int) -> Iterator[Hit]:
    """Yield at most `limit` hits, without repeating a step or a section of an artifact."""
    given: dict[object, list[int]] = {}
    shown: set[tuple[int, str]] = set()
    for place in places:
        offsets = given.setdefault(place.uri or place.seq, [])
        offset = place.offset or 0
        most = 1 if place.uri is None else _OF_ONE
        if len(offsets) >= most or any(abs(offset - other) < 2 * LENGTH for other in offsets):
            continue
        hit = _hit(place, stored(place.id), words)
        if (hit.seq, hit.snippet) in shown:
            continue
        offsets.append(offset)
        shown.add((hit.seq, hit.snippet))
        yield hit
        if len(shown) == limit:
            return


def _hit(place: Place, passage: Stored, words: set[str]) -> Hit:
    start, shown = snippet(passage.text, words)
    return Hit(
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
