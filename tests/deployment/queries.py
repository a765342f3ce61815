"""Queries of Prometheus: parsed, and the metrics that they name."""

from collections.abc import Iterator
from typing import Any

import promql_parser

from tests.deployment.files import HISTOGRAMS, METRICS

GRAFANAS = {"$__rate_interval": "5m", "$__range": "1h"}
"""Variables of Grafana, and something that it may put in their place."""
PROMETHEUS = {"up"}
"""Metrics of Prometheus itself."""
POSSIBLE = METRICS - HISTOGRAMS | {f"{name}{end}" for name in HISTOGRAMS for end in ("_bucket", "_sum", "_count")}


def unknown_metrics(query: str) -> set[str]:
    """The metrics in the query that nobody has; ValueError where it cannot be read."""
    for variable, value in GRAFANAS.items():
        query = query.replace(variable, value)
    return set(_named(promql_parser.parse(query))) - POSSIBLE - PROMETHEUS


def gathered(query: str) -> Iterator[tuple[str, str]]:
    """Each metric of the query, with the innermost aggregation over workers that it is in: `sum`, or "" for none."""
    for variable, value in GRAFANAS.items():
        query = query.replace(variable, value)
    return _gathered(promql_parser.parse(query), "")


def _gathered(expression: Any, by: str) -> Iterator[tuple[str, str]]:
    match expression:
        case promql_parser.VectorSelector() | promql_parser.MatrixSelector():
            yield from ((name, by) for name in _named(expression))
        case promql_parser.AggregateExpr():
            yield from _gathered(expression.expr, str(expression.op))
        case promql_parser.BinaryExpr():
            yield from _gathered(expression.lhs, by)
            yield from _gathered(expression.rhs, by)
        case promql_parser.Call():
            for one in expression.args:
                yield from _gathered(one, by)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            pass
        case _:
            yield from _gathered(expression.expr, by)


def _named(expression: Any) -> Iterator[str]:
    match expression:
        case promql_parser.VectorSelector():
            yield str(expression.name)
        case promql_parser.MatrixSelector():
            yield str(expression.vector_selector.name)
        case promql_parser.BinaryExpr():
            yield from _named(expression.lhs)
            yield from _named(expression.rhs)
        case promql_parser.Call():
            for one in expression.args:
                yield from _named(one)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            pass
        case _:
            yield from _named(expression.expr)
