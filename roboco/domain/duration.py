"""Durations as people write them: `30s`, `15m`, `2h`, `1d`, `3w`."""

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(\d{1,6})([smhdw])")
MAX_DURATION: Final = 366 * 86_400
"""The longest duration that a team may declare, in seconds."""


def seconds_of(text: str) -> int | None:
    """Return the seconds of a duration, or None if the text is none."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def duration_text(seconds: float) -> str:
    """Return the duration in the largest unit that needs no fraction."""
    unit = next((unit for unit in reversed(_UNITS) if seconds % _UNITS[unit] == 0), "s")
    return f"{seconds / _UNITS[unit]:g}{unit}"


def _as_seconds(value: Any) -> Any:
    seconds = seconds_of(value) if isinstance(value, str) else None
    return value if seconds is None else seconds


Duration = Annotated[
    float,
    Field(ge=1, le=MAX_DURATION),
    BeforeValidator(_as_seconds, json_schema_input_type=float | Annotated[str, Field(pattern=r"^\d{1,6}[smhdw]$")]),
]
"""Seconds, or a text such as `2h`; at most a year."""
