"""The metrics that queries of Prometheus name, and their aggregations."""

from collections.abc import Iterator
from typing import Any

import promql_parser

from tests.deployment.files import HISTOGRAMS, METRICS

GRAFANA_VARIABLES = {"$__rate_interval": "5m", "$__range": "1h"}
"""Variables of Grafana, each with a possible value."""
PROMETHEUS_METRICS = {"up"}
"""Metrics of Prometheus itself."""
ROBOCO_METRICS = METRICS - HISTOGRAMS | {f"{name}{end}" for name in HISTOGRAMS for end in ("_bucket", "_sum", "_count")}


def unknown_metrics(query: str) -> set[str]:
    """Return the metrics of the query that Roboco does not have. Raise ValueError if the query cannot be parsed."""
    for variable, value in GRAFANA_VARIABLES.items():
        query = query.replace(variable, value)
    return set(_metric_names(promql_parser.parse(query))) - ROBOCO_METRICS - PROMETHEUS_METRICS


def aggregations(query: str) -> Iterator[tuple[str, str]]:
    """Yield each metric of the query with its innermost aggregation, such as `sum`, or "" for none."""
    for variable, value in GRAFANA_VARIABLES.items():
        query = query.replace(variable, value)
    return _aggregations(promql_parser.parse(query), "")


def _aggregations(expression: Any, aggregation: str) -> Iterator[tuple[str, str]]:
    match expression:
        case promql_parser.VectorSelector() | promql_parser.MatrixSelector():
            yield from ((name, aggregation) for name in _metric_names(expression))
        case promql_parser.AggregateExpr():
            yield from _aggregations(expression.expr, str(expression.op))
        case promql_parser.BinaryExpr():
            yield from _aggregations(expression.lhs, aggregation)
            yield from _aggregations(expression.rhs, aggregation)
        case promql_parser.Call():
            for one in expression.args:
                yield from _aggregations(one, aggregation)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            pass
        case _:
            yield from _aggregations(expression.expr, aggregation)


def _metric_names(expression: Any) -> Iterator[str]:
    match expression:
        case promql_parser.VectorSelector():
            yield str(expression.name)
        case promql_parser.MatrixSelector():
            yield str(expression.vector_selector.name)
        case promql_parser.BinaryExpr():
            yield from _metric_names(expression.lhs)
            yield from _metric_names(expression.rhs)
        case promql_parser.Call():
            for one in expression.args:
                yield from _metric_names(one)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            pass
        case _:
            yield from _metric_names(expression.expr)
