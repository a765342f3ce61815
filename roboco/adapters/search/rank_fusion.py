"""Fusion of two rankings: passages by words, and passages by meaning."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from roboco.adapters.search.sqlite_index import Place
from roboco.adapters.search.vector import Vector

_SMOOTH = 60
"""The constant that reciprocal rank fusion adds to each rank: Cormack, Clarke, Buettcher, SIGIR 2009."""


class SemanticRank(Protocol):
    """Turns texts into vectors that point in the same direction if the texts mean the same."""

    @property
    def model(self) -> str:
        """Return the model and its endpoint: vectors of different models cannot be compared."""

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector of length 1 for each text. Raise TransientError if they are not available soon."""


def fused(by_words: Sequence[Place], compared: Sequence[Place], likeness: Mapping[int, float]) -> list[Place]:
    """Return all passages, ranked by words and by similarity together.

    A passage that is in only one of the rankings gets no share from the other one.
    """
    scores = {place.id: 1 / (_SMOOTH + rank) for rank, place in enumerate(by_words, 1)}
    alike = sorted(compared, key=lambda place: (-likeness[place.id], -place.seq, place.id))
    for rank, place in enumerate(alike, 1):
        scores[place.id] = scores.get(place.id, 0.0) + 1 / (_SMOOTH + rank)
    places = {place.id: place.scored(scores[place.id]) for place in (*by_words, *compared)}
    return sorted(places.values(), key=lambda place: (-place.score, -place.seq, place.id))
