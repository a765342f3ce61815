"""PackedVectors: the stored vectors of passages, compared with a query. It needs numpy, of the extra `memory`."""

import importlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roboco.tools.search.vector import Vector

WORD_WEIGHT = 0.4
"""The weight of a passage that has all words of the query, relative to one with the direction of its vector."""
_Floats: TypeAlias = NDArray[np.float32]
_processors: Any = importlib.import_module("threadpoolctl").ThreadpoolController()
_SHRINKAGE = 20
"""Passages that count as having the mean zero, so that the mean of a few passages removes little of them."""


def pack(vectors: Sequence[tuple[int, Vector]]) -> bytes:
    """Return the vectors by passage in one byte a number, which changes a similarity by less than 0.01."""
    values = np.array([vector for _, vector in vectors], np.float32)
    records = np.empty(len(vectors), _layout(values.shape[1]))
    records["passage"] = [passage for passage, _ in vectors]
    records["scale"] = np.abs(values).max(axis=1) / 127
    records["values"] = np.rint(values / records["scale"][:, None])
    return records.tobytes()


class PackedVectors:
    """The vectors of a task's passages. A search takes 5 ms for 20,000 of them, which take 10 MB."""

    def __init__(self, packed: bytes, dimension: int) -> None:
        self._records = np.frombuffer(packed, _layout(dimension))
        # All texts of a history share a direction, which says nothing about one of them. Their mean is subtracted: Mu,
        # Viswanath, "All-but-the-top", ICLR 2018.
        total = self._records["scale"] @ self._records["values"]
        self._mean = (total / (len(self._records) + _SHRINKAGE)).astype(np.float32)
        centred = 1 - 2 * self._products(self._mean) + self._mean @ self._mean
        self._lengths = np.sqrt(np.maximum(centred, 1e-6))

    def best_scores(
        self, query: Vector, by_words: Mapping[int, float], allowed: Collection[int] | None, most: int
    ) -> dict[int, float]:
        """Return the best passages with the sum of both scores, those by words included. Only some may be allowed."""
        passages, scores = self._records["passage"], self._similarities(np.asarray(query, np.float32))
        found = {number: WORD_WEIGHT * score for number, score in by_words.items()}
        places = np.searchsorted(passages, list(found))
        for place, (number, score) in zip(places.tolist(), found.items(), strict=True):
            if place < len(passages) and passages[place] == number:
                scores[place] += score
        best = np.argsort(-scores)
        if allowed is not None:
            best = best[np.isin(passages[best], list(allowed))]
        best = best[:most]
        return found | dict(zip(passages[best].tolist(), scores[best].tolist(), strict=True))

    def _similarities(self, query: _Floats) -> _Floats:
        """Return the cosine similarities of the centred vectors."""
        centred = query - self._mean
        length = max(float(np.linalg.norm(centred)), 1e-6)
        found: _Floats = (self._products(centred) - self._mean @ centred) / (self._lengths * np.float32(length))
        return found

    def _products(self, column: _Floats) -> _Floats:
        """Return the product of each vector and the column, without a copy of all vectors."""
        values, chunk = self._records["values"], 2048
        with _processors.limit(limits=1, user_api="blas"):
            products = [values[at : at + chunk].astype(np.float32) @ column for at in range(0, len(values) + 1, chunk)]
        found: _Floats = np.concatenate(products) * self._records["scale"]
        return found


def _layout(dimension: int) -> np.dtype[np.void]:
    return np.dtype([("passage", "<i4"), ("scale", "<f4"), ("values", "i1", (dimension,))])
