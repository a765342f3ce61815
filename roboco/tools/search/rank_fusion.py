"""Fusion of two rankings: passages by words, and passages by meaning."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from roboco.tools.search.sqlite_index import PassageRef
from roboco.tools.search.vector import Vector

_RRF_CONSTANT = 60
"""The constant that reciprocal rank fusion adds to each rank: Cormack, Clarke, Buettcher, SIGIR 2009."""


class Embedder(Protocol):
    """Turns texts into vectors that point in the same direction if the texts mean the same."""

    @property
    def model(self) -> str:
        """Return the model and its endpoint: vectors of different models cannot be compared."""

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector of length 1 for each text. Raise TransientError if they are not available soon."""


def fuse_rankings(
    by_words: Sequence[PassageRef], compared: Sequence[PassageRef], similarity: Mapping[int, float]
) -> list[PassageRef]:
    """Return all passages, ranked by words and by similarity together.

    A passage that is in only one of the rankings gets no share from the other one.
    """
    scores = {place.id: 1 / (_RRF_CONSTANT + rank) for rank, place in enumerate(by_words, 1)}
    by_similarity = sorted(compared, key=lambda place: (-similarity[place.id], -place.seq, place.id))
    for rank, place in enumerate(by_similarity, 1):
        scores[place.id] = scores.get(place.id, 0.0) + 1 / (_RRF_CONSTANT + rank)
    places = {place.id: place.with_score(scores[place.id]) for place in (*by_words, *compared)}
    return sorted(places.values(), key=lambda place: (-place.score, -place.seq, place.id))
