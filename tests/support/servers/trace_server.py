"""A server that receives traces by OTLP over HTTP, in a thread of the test's process."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class TraceServer:
    """A server that listens within a `with` block and keeps all requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bodies: list[bytes] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="trace-server")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def raw(self) -> bytes:
        """The bodies of all requests."""
        with self._lock:
            return b"".join(self._bodies)

    def spans(self) -> list[dict[str, Any]]:
        """Return the name, ids, process and attributes of each received span."""
        with self._lock:
            requests = [ExportTraceServiceRequest.FromString(body) for body in self._bodies]
        return [
            {
                "name": span.name,
                "trace": span.trace_id.hex(),
                "id": span.span_id.hex(),
                "above": span.parent_span_id.hex(),
                "process": _attributes(one.resource.attributes)["process.pid"],
                "facts": _attributes(span.attributes),
            }
            for request in requests
            for one in request.resource_spans
            for scope in one.scope_spans
            for span in scope.spans
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with server._lock:
                    server._bodies.append(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the class above
                """Log nothing."""

        return Handler


def _attributes(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}
