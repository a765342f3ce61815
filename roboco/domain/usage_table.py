"""UsageTable: usage by tenant, team, agent, model, tool and day, summed over tasks."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

from roboco.domain.ids import tenant_of
from roboco.domain.schema import RecordModel
from roboco.domain.task_usage import TaskUsage, UsageCell
from roboco.domain.usage import BILLION
from roboco.errors import UsageError

Dimension = Literal["tenant", "team", "agent", "model", "tool", "day"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
MEASURES: Final = ("turns", "tokens_in", "tokens_out", "tokens", "calls", "cost")
MAX_ROWS: Final = 100_000
"""Rows of a table."""


class UsageRow(RecordModel):
    """The usage of all tasks at one place. A dimension by which the table is not grouped is None."""

    tenant: str | None = None
    """The tenant, or "" for tasks without one."""
    team: str | None = None
    agent: str | None = None
    """The agent; for a tool, the agent that called it."""
    model: str | None = None
    """The model as its server names it, or "" for tools and for replies that have not named it."""
    tool: str | None = None
    """The tool, or "" for the turns of models."""
    day: str | None = None
    """The day in UTC: YYYY-MM-DD."""
    turns: int = 0
    """Turns of agents."""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens: int = 0
    """Input and output tokens together."""
    calls: int = 0
    """Tool calls that were run."""
    cost: float = 0.0
    """Money in the currency of the prices, of models and tools."""


class UsageTable:
    """Sums of usage. The order in which tasks are added does not change them."""

    def __init__(self, by: Sequence[Dimension], first_day: str = "", last_day: str = "9999-12-31") -> None:
        self.by: Final = tuple(by)
        self._days = (first_day, last_day)
        self._sums: dict[tuple[str, ...], UsageCell] = {}
        self._total = _empty_cell()

    def add(self, team: str, usage: TaskUsage) -> None:
        """Add the usage of a task of this team, on the days of the table. Raise UsageError if it has too many rows."""
        tenant, (first, last) = tenant_of(usage.task_id), self._days
        for cell in usage.cells:
            if first <= cell.day <= last:
                values = {"tenant": tenant, "team": team, **cell.model_dump()}
                place = tuple(str(values[name]) for name in self.by)
                if place not in self._sums and len(self._sums) >= MAX_ROWS:
                    raise UsageError(f"the table has more than {MAX_ROWS} rows: group it by less, or choose fewer days")
                self._sums[place] = self._sums.get(place, _empty_cell()).plus(cell)
                self._total = self._total.plus(cell)

    def rows(self) -> list[UsageRow]:
        """Return the rows, sorted by their dimensions."""
        return [_row(self._sums[place], dict(zip(self.by, place, strict=True))) for place in sorted(self._sums)]

    def total(self) -> UsageRow:
        """Return the sum of all rows."""
        return _row(self._total, {})


def parse_dimensions(names: str | Sequence[str]) -> tuple[Dimension, ...]:
    """Return the dimensions of a list such as `tenant,day`. Raise UsageError if one is unknown or named twice."""
    given = tuple(names.split(",")) if isinstance(names, str) else tuple(names)
    found: list[Dimension] = []
    for name in given:
        known = next((one for one in DIMENSIONS if one == name.strip()), None)
        if known is None or known in found:
            problem = "is unknown" if known is None else "is named twice"
            raise UsageError(f"by: {name[:40]!r} {problem}; name some of {', '.join(DIMENSIONS)}")
        found.append(known)
    return tuple(found)


def _empty_cell() -> UsageCell:
    return UsageCell(agent="", day="")


def _row(sums: UsageCell, place: dict[Dimension, str]) -> UsageRow:
    counted = sums.model_dump(include={"turns", "tokens_in", "tokens_out", "calls"})
    tokens = sums.tokens_in + sums.tokens_out
    return UsageRow.model_validate({**place, **counted, "tokens": tokens, "cost": sums.cost_billionths / BILLION})
