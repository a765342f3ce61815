"""Vectors of texts."""

import hashlib
import math
from array import array
from collections.abc import Iterable
from operator import mul
from typing import TypeAlias

Vector: TypeAlias = "array[float]"
"""Floats of single precision."""


def unit(numbers: Iterable[float]) -> Vector:
    """The vector, of length 1; ValueError if it has no direction."""
    vector = array("f", numbers)
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not (math.isfinite(length) and length > 0):
        raise ValueError("a vector without a direction")
    return array("f", (number / length for number in vector))


def cosine(one: Vector, other: Vector) -> float:
    """How alike two vectors of length 1 are, from -1 to 1."""
    return float(sum(map(mul, one, other)))


def hash_of(text: str) -> bytes:
    """What a text's vector is kept by."""
    return hashlib.sha256(text.encode()).digest()
