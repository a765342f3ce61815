"""The setup of tracing from the environment variables of OpenTelemetry."""

import importlib
import logging
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from roboco.errors import UsageError

_log = logging.getLogger(__name__)

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_OTLP_EXPORTERS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def tracing_enabled(environment: Mapping[str, str]) -> bool:
    """Return True if a variable of OpenTelemetry names an exporter or its endpoint, and none turns traces off."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(map(environment.get, _ENDPOINT_VARIABLES))


def open_tracer(environment: Mapping[str, str]) -> Any | None:
    """Return the `Tracer` of this process, or None if traces are off. Raise UsageError if traces cannot be sent.

    Without the extra no traces are sent, because the variables may be meant for other services.
    """
    if not tracing_enabled(environment):
        return None
    try:
        tracer: Any = importlib.import_module("roboco.telemetry.tracer").Tracer
    except ImportError:
        _log.info("no traces are sent, because the extra 'roboco[otel]' is not installed")
        return None
    return tracer(_exporter(environment))


def _exporter(environment: Mapping[str, str]) -> Any:
    name = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "otlp":
        general = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or general
        name = _OTLP_EXPORTERS.get(protocol, protocol)
    found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        possible = ", ".join(sorted({one.name for one in entry_points(group="opentelemetry_traces_exporter")}))
        raise UsageError(
            f"there is no trace exporter {name!r}; installed: {possible}; correct OTEL_TRACES_EXPORTER or "
            "OTEL_EXPORTER_OTLP_PROTOCOL, or install its package"
        )
    return found.load()()
