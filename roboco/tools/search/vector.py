"""Vectors of texts."""

import hashlib
import math
from array import array
from collections.abc import Iterable
from operator import mul
from typing import TypeAlias

Vector: TypeAlias = "array[float]"
"""Floats of single precision."""


def unit_vector(numbers: Iterable[float]) -> Vector:
    """Return the vector scaled to length 1. Raise ValueError if it has no direction."""
    vector = array("f", numbers)
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not (math.isfinite(length) and length > 0):
        raise ValueError("a vector without a direction")
    return array("f", (number / length for number in vector))


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine similarity of two vectors of length 1, from -1 to 1."""
    return float(sum(map(mul, one, other)))


def text_hash(text: str) -> bytes:
    """Return the key under which a text's vector is stored."""
    return hashlib.sha256(text.encode()).digest()
