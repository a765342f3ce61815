"""Filters of a search, and its hits."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

PartKind = Literal["text", "tool_call", "tool_result", "artifact", "error"]


@dataclass(frozen=True)
class SearchFilters:
    """Conditions on passages: agent, kind of part, at or after a time, before a time; None for any.

    A time without a zone is UTC.
    """

    agent: str | None = None
    part: PartKind | None = None
    after: datetime | None = None
    before: datetime | None = None

    @property
    def values(self) -> dict[str, str | float | None]:
        """Return the filters by name, times in Unix seconds."""
        return vars(self) | {"after": _seconds(self.after), "before": _seconds(self.before)}


@dataclass(frozen=True)
class SearchHit:
    """A passage that matches. `artifact` is the URI of the file that contains it.

    `offset` is the start of the snippet in the file, in characters, as `artifact_read` counts; None outside of texts.
    """

    step_id: str
    seq: int
    agent_name: str
    part: PartKind
    score: float
    snippet: str
    created_at: datetime
    artifact: str | None = None
    offset: int | None = None

    def to_result(self) -> dict[str, Any]:
        """Return the hit as a tool result, without fields that do not apply."""
        time = self.created_at.isoformat().replace("+00:00", "Z")
        found = vars(self) | {"score": round(self.score, 4), "created_at": time}
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class SearchResult:
    """The hits, best first; `note` names a part of the search that failed, "" if none did."""

    hits: tuple[SearchHit, ...] = ()
    note: str = ""


def _seconds(time: datetime | None) -> float | None:
    if time is None:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
