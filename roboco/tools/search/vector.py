"""Vector: the direction of a text's meaning."""

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
