"""PackedVectors: the stored vectors of passages, compared with a query. It needs numpy, of the extra `memory`."""

import importlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roboco.tools.search.vector import Vector

WORD_WEIGHT = 0.6
"""The weight of a passage that has all words of the query, relative to one with the direction of its vector."""
WORD_POWER = 3
"""The power of the share of the query's words: a passage with a few of them, as in "where is the", gets nearly nothing."""
REPETITION_WEIGHT = 0.2
"""The weight of the similarity with a better passage, which is subtracted."""
_SPREAD = 40
"""Passages that are compared with better ones, one after the other: several may be of one step."""
_Floats: TypeAlias = NDArray[np.float32]
_processors: Any = importlib.import_module("threadpoolctl").ThreadpoolController()
_SHRINKAGE = 20
"""Passages that count as having no common direction, so that those of a few passages remove little of them."""
_SAMPLE = 512
"""Passages, evenly spaced, from which the common directions are computed: 20 ms, once for each change of the vectors."""


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
        # All texts of a history share a direction, and those of a language another one, which say nothing about one of
        # them. Both are removed: Mu, Viswanath, "All-but-the-top", ICLR 2018.
        sample = self._records[:: len(self._records) // _SAMPLE + 1]
        values = sample["values"] * sample["scale"][:, None]
        self._mean = values.sum(axis=0) / np.float32(len(values) + _SHRINKAGE)
        values -= self._mean
        with _processors.limit(limits=1, user_api="blas"):
            main = np.linalg.eigh(values @ values.T)[1][:, -1:].T @ values
        self._main = main.sum(axis=0) / np.float32(max(np.linalg.norm(main), 1e-6))
        self._removed = np.float32(len(values) / (len(values) + _SHRINKAGE))

    def best_scores(
        self, query: Vector, by_words: Mapping[int, float], allowed: Collection[int] | None, most: int
    ) -> dict[int, float]:
        """Return the best passages with the sum of both scores, those by words included. Only some may be allowed.

        A passage that resembles a better one loses a part of its score, so that repetitions do not fill the hits:
        Carbonell, Goldstein, "The use of MMR", SIGIR 1998.
        """
        passages, scores = self._records["passage"], self._similarities(np.asarray(query, np.float32))
        found = {number: WORD_WEIGHT * min(score, 1) ** WORD_POWER for number, score in by_words.items()}
        places = np.searchsorted(passages, list(found))
        for place, (number, score) in zip(places.tolist(), found.items(), strict=True):
            if place < len(passages) and passages[place] == number:
                scores[place] += score
        best = np.argsort(-scores)
        if allowed is not None:
            best = best[np.isin(passages[best], list(allowed))]
        best = best[:most]
        return found | dict(zip(passages[best].tolist(), self._spread(best, scores[best]), strict=True))

    def _spread(self, places: NDArray[np.intp], scores: _Floats) -> list[float]:
        """Return the scores, less the penalty of each place for its likeness to those of better scores."""
        records = self._records[places]
        values = records["values"] * records["scale"][:, None] - self._mean
        values -= self._removed * np.outer(values @ self._main, self._main)
        values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-6)
        with _processors.limit(limits=1, user_api="blas"):
            penalties = REPETITION_WEIGHT * np.maximum(values @ values.T, 0)
        left, spread = scores.copy(), {}
        for _ in places[:_SPREAD]:
            best = int(np.argmax(left))
            spread[best] = float(left[best])
            left = np.minimum(left, scores - penalties[best])
            left[best] = -np.inf
        return [spread.get(place, float(score)) for place, score in enumerate(left)]

    def _similarities(self, query: _Floats) -> _Floats:
        """Return the cosine similarities of the vectors without the common directions."""
        column = self._without_main(query - self._mean)
        length = max(float(np.linalg.norm(column)), 1e-6)
        column = self._without_main(column) / np.float32(length)
        means, mains, products = self._products(np.stack([self._mean, self._main, column]).T).T
        mains -= self._main @ self._mean
        lengths = 1 - 2 * means + self._mean @ self._mean - self._removed * (2 - self._removed) * mains**2
        found: _Floats = (products - self._mean @ column) / np.sqrt(np.maximum(lengths, 1e-6))
        return found

    def _without_main(self, vector: _Floats) -> _Floats:
        removed: _Floats = vector - self._removed * (self._main @ vector) * self._main
        return removed

    def _products(self, columns: _Floats) -> _Floats:
        """Return the products of each vector and the columns, without a copy of all vectors."""
        values, chunk = self._records["values"], 2048
        with _processors.limit(limits=1, user_api="blas"):
            products = [values[at : at + chunk].astype(np.float32) @ columns for at in range(0, len(values) + 1, chunk)]
        found: _Floats = np.concatenate(products) * self._records["scale"][:, None]
        return found


def _layout(dimension: int) -> np.dtype[np.void]:
    return np.dtype([("passage", "<i4"), ("scale", "<f4"), ("values", "i1", (dimension,))])
