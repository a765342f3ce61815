"""limit_changes: the limits that replace the team's, read from the lines of a history without parsing other steps."""

import json
from collections.abc import Iterable
from typing import Any

from roboco.domain.history.step import NEW_LIMITS, RETRY, parse_step
from roboco.domain.limits import deep_merge

_MARKS = tuple(json.dumps(key).encode() for key in (NEW_LIMITS, RETRY))
"""The keys as stored lines contain them. In a text their quotes are escaped, so few other lines contain them."""


def read_limit_overrides(lines: Iterable[bytes]) -> dict[str, Any]:
    """Return the limits that the steps of these lines have set, as `fold` does. Cost: a search in each line.

    Raise CorruptHistory if a line with new limits is not a step.
    """
    overrides: dict[str, Any] = {}
    for line in lines:
        if any(mark in line for mark in _MARKS):
            overrides = deep_merge(overrides, parse_step(line).changed_limits or {})
    return overrides
