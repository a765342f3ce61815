"""limit_changes: the limits that replace the team's, read from the lines of a history without parsing other steps."""

import json
from collections.abc import Iterable
from typing import Any

from roboco.domain.history.step import NEW_LIMITS, ORCHESTRATOR, parse_step
from roboco.domain.limits import deep_merge

_MARK = json.dumps(NEW_LIMITS).encode()
"""The key as stored lines contain it. In a text its quotes are escaped, so few other lines contain it."""


def read_limit_overrides(lines: Iterable[bytes]) -> dict[str, Any]:
    """Return the limits that the steps of these lines have set, as `fold` does. Cost: a search in each line.

    Raise CorruptHistory if a line with new limits is not a step.
    """
    overrides: dict[str, Any] = {}
    for line in lines:
        if _MARK in line:
            step = parse_step(line)
            if step.agent_name == ORCHESTRATOR and isinstance(raised := step.metadata.get(NEW_LIMITS), dict):
                overrides = deep_merge(overrides, raised)
    return overrides
