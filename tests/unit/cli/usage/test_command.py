"""roboco usage: the three forms of a report, and its exit code."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any, Self

import pytest
from click.testing import CliRunner

from roboco.cli.main import commands
from roboco.cli.usage import command
from roboco.client.operator.usage import UsageSummary
from roboco.domain.usage_table import UsageRow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROW = UsageRow(tenant="", model="a\x1b[31m,b", turns=2, tokens_in=1234, tokens_out=6, tokens=1240, calls=1, cost=0.25)


class StoredReport:
    """A client with one report."""

    problems: tuple[str, ...] = ()
    asked: tuple[str, dict[str, Any]] = ("", {})

    def __init__(self, settings: object) -> None:
        self.operator = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def usage_collector(self, by: str, **options: Any) -> "StoredReport":
        """Return the report."""
        StoredReport.asked = (by, options)
        return self

    def collect(self) -> Iterator[int]:
        """Yield a number of tasks."""
        yield 3

    def report(self) -> UsageSummary:
        """Return the report."""
        return UsageSummary(
            by=("tenant", "model"),
            first_day=NOW.date(),
            last_day=NOW.date(),
            as_of=NOW,
            rows=[ROW],
            total=ROW.model_copy(update={"tenant": None, "model": None}),
            tasks=3,
            complete=not self.problems,
            problems=list(self.problems),
        )


@pytest.fixture(autouse=True)
def _stored_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Orchestrator", StoredReport)
    monkeypatch.setattr(command, "load_settings", dict)
    monkeypatch.setattr(StoredReport, "problems", ())


def call(*arguments: str) -> Any:
    """Return the result of the command."""
    return CliRunner().invoke(commands, ["usage", *arguments], standalone_mode=False)


def test_the_table_shows_rows_total_and_days_without_escape_sequences() -> None:
    done = call("--by", "tenant,model", "--since", "2026-01-01", "--team", "desk", "--all")
    assert (done.return_value, done.stderr) == (0, "")
    header, row, total, facts = done.stdout.splitlines()
    assert header.split() == ["tenant", "model", "turns", "tokens", "in", "tokens", "out", "tokens", "calls", "cost"]
    assert row.split() == ["-", "a\\u001b[31m,b", "2", "1,234", "6", "1,240", "1", "0.250000"]
    assert total.split() == ["total", *row.split()[2:]]
    assert facts == "2026-01-31 to 2026-01-31 (UTC), 3 tasks, as of 2026-01-31 12:00:00"
    by, options = StoredReport.asked
    assert (by, options["since"].isoformat(), options["team"], options["all_tasks"]) == (
        *("tenant,model", "2026-01-01", ["desk"]),
        True,
    )


def test_csv_and_json_lines_are_for_programs() -> None:
    header, row = csv.reader(StringIO(call("--csv").stdout, newline=""))
    assert dict(zip(header, row, strict=True))["cost"] == "0.25"
    first, last = map(json.loads, call("--json").stdout.splitlines())
    assert (first["type"], first["model"], last["type"], last["total"]["tokens"]) == ("row", ROW.model, "report", 1240)
