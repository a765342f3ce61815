"""Whether traces are wanted, and where they go: ROBOCO_TRACING, and the variables of OpenTelemetry."""

import importlib
import logging
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from roboco.adapters.telemetry.telemetry import Spans
from roboco.errors import UsageError

_log = logging.getLogger(__name__)

_PLACES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def traces_wanted(traces: str | None, environment: Mapping[str, str]) -> bool:
    """Whether ROBOCO_TRACING asks for them, or, where it says nothing, a variable of OpenTelemetry."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if traces == "off" or disabled or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return traces == "on" or any(map(environment.get, _PLACES))


def open_spans(traces: str | None, environment: Mapping[str, str]) -> Spans | None:
    """Where this process's spans go; None if nobody wants them. UsageError if they cannot be sent.

    Without the extra, only ROBOCO_TRACING=on is a mistake: other variables may be meant for other services.
    """
    if not traces_wanted(traces, environment):
        return None
    try:
        tracer: Any = importlib.import_module("roboco.adapters.telemetry.tracer").Tracer
    except ImportError as error:
        if traces == "on":
            raise UsageError(f"traces need the extra 'roboco[otel]': install it on this worker ({error})") from error
        _log.info("no traces are sent, since the extra 'roboco[otel]' is not installed")
        return None
    spans: Spans = tracer(_exporter(environment))
    return spans


def _exporter(environment: Mapping[str, str]) -> Any:
    name = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "otlp":
        general = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or general
        name = _OTLP.get(protocol, protocol)
    found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        possible = ", ".join(sorted({one.name for one in entry_points(group="opentelemetry_traces_exporter")}))
        raise UsageError(
            f"no exporter of traces is called {name!r}, installed are {possible}; correct OTEL_TRACES_EXPORTER or "
            "OTEL_EXPORTER_OTLP_PROTOCOL, or install its package"
        )
    return found.load()()
