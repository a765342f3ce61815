"""Semantic ranking: what a passage means, beside the words that it has."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from roboco.adapters.search.sqlite_index import Place
from roboco.adapters.search.vector import Vector

_SMOOTH = 60
"""What reciprocal rank fusion adds to each rank, as its authors do: Cormack, Clarke, Buettcher, SIGIR 2009."""


class SemanticRank(Protocol):
    """Turns texts into vectors that point the same way if the texts mean the same."""

    @property
    def model(self) -> str:
        """What makes the vectors, where: vectors of different models cannot be compared."""

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of each text, of length 1; TransientError if they cannot be had soon."""


def fused(by_words: Sequence[Place], compared: Sequence[Place], likeness: Mapping[int, float]) -> list[Place]:
    """All places, ranked by words and by likeness together; a place that is in one ranking only lacks a share."""
    scores = {place.id: 1 / (_SMOOTH + rank) for rank, place in enumerate(by_words, 1)}
    alike = sorted(compared, key=lambda place: (-likeness[place.id], -place.seq, place.id))
    for rank, place in enumerate(alike, 1):
        scores[place.id] = scores.get(place.id, 0.0) + 1 / (_SMOOTH + rank)
    places = {place.id: place.scored(scores[place.id]) for place in (*by_words, *compared)}
    return sorted(places.values(), key=lambda place: (-place.score, -place.seq, place.id))
