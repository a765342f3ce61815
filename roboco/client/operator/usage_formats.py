"""usage_formats: a report of usage as CSV and as JSON lines. The names of columns and fields never change."""

import csv
import json
from collections.abc import Iterator
from io import StringIO
from typing import Any, Final

from roboco.client.operator.usage import UsageSummary
from roboco.domain.usage_table import MEASURES, Dimension, UsageRow

FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet computes. Some accept wide forms, or spaces before them."""


def csv_lines(report: UsageSummary) -> Iterator[str]:
    """Yield the header and the rows as CSV (RFC 4180), each with its line end.

    A text that a spreadsheet would compute begins with an apostrophe, and signs that control a terminal are escaped as
    in JSON. Names of models come from their servers.
    """
    yield csv_header(report.by)
    for row in report.rows:
        values = _values(report.by, row)
        cost = f"{values.pop('cost'):.9f}".rstrip("0").rstrip(".")
        yield _csv_line([*(_safe_cell(value) for value in values.values()), cost])


def csv_header(by: tuple[Dimension, ...]) -> str:
    """Return the first line of the CSV."""
    return _csv_line([*by, *MEASURES])


def json_lines(report: UsageSummary) -> Iterator[str]:
    """Yield a line of type `row` for each row, and then one of type `report` with the total and its conditions."""
    for row in report.rows:
        yield _json_line({"type": "row", **_values(report.by, row)})
    facts = report.model_dump(mode="json", exclude={"rows", "total"})
    yield _json_line({"type": "report", **facts, "total": _values((), report.total)})


def _values(by: tuple[Dimension, ...], row: UsageRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in (*by, *MEASURES)}


def _safe_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value if value.isprintable() else "".join(map(_printable, value))
    return f"'{text}" if value != value.lstrip() or value.startswith(FORMULA_SIGNS) else text


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def _csv_line(cells: list[object]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()


def _json_line(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{text if text.isprintable() else ''.join(map(_printable, text))}\n"
