"""A server that answers requests of native protocols with recorded or written bytes, and notes what it receives."""

import base64
import json
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[3].parent / "shared" / "wire"
"""Recorded exchanges with providers. Tests that need them skip where the folder is absent."""
PROVIDERS = {
    "anthropic": "anthropic",
    "google": "google",
    "bedrock": "bedrock",
    "responses": "openai-responses",
}
"""The provider of each folder of recordings."""


@dataclass(frozen=True)
class Answer:
    """What the server sends: a status and the pieces of a body. With `hold` it waits for the client to disconnect."""

    status: int
    pieces: Iterable[bytes]
    content_type: str = "text/event-stream"
    hold: bool = False


@dataclass
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class NativeServer:
    """Answers requests in turn. The last answer is repeated."""

    url: str
    answers: list[Answer] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    sent: threading.Event = field(default_factory=threading.Event)
    """Is set when a held answer was sent."""
    disconnected: threading.Event = field(default_factory=threading.Event)
    """Is set when a client has left a held answer."""


@contextmanager
def native_server() -> Iterator[NativeServer]:
    """Run a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.received.append(Received(self.path, headers, json.loads(body)))
            answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in answer.pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if answer.hold:
                server.sent.set()
                while self.connection.recv(1000):
                    pass
                server.disconnected.set()
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = NativeServer(f"http://127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def recordings(*folders: str) -> list[Path]:
    """Return the recordings in these folders."""
    return [path for folder in folders for path in sorted((RECORDINGS / folder).glob("*.json"))]


def read_recording(path: Path) -> dict[str, Any]:
    """Return a recording, with its model in `model` and its body as bytes in `raw`."""
    recording: dict[str, Any] = json.loads(path.read_text())
    text = recording["response"]
    encoded = text.startswith("base64:")
    recording["raw"] = base64.b64decode(text.removeprefix("base64:")) if encoded else text.encode()
    recording["model"] = (recording["request"] or {}).get("model") or {
        "google": "gemini-3-pro-preview",
        "bedrock": "us.anthropic.claude-sonnet-4-20250514-v1:0",
    }[path.parent.name.removesuffix("-error")]
    return recording


def answer_of(recording: dict[str, Any], piece_size: int = 0, hold: bool = False) -> Answer:
    """Return the answer of a recording, in pieces of this many bytes."""
    raw = recording["raw"]
    size = piece_size or len(raw)
    kind = "application/json" if recording["status"] >= 300 else "text/event-stream"
    if recording["response"].startswith("base64:"):
        kind = "application/vnd.amazon.eventstream"
    return Answer(recording["status"], [raw[at : at + size] for at in range(0, len(raw), size)], kind, hold)


def events(*data: dict[str, Any]) -> Answer:
    """Return an answer with these server-sent events. An event that has a type is named after it."""
    names = [f"event: {one['type']}\n" if "type" in one else "" for one in data]
    return Answer(200, [f"{name}data: {json.dumps(one)}\n\n".encode() for name, one in zip(names, data, strict=True)])


def amazon_events(*data: tuple[str, dict[str, Any]]) -> Answer:
    """Return an answer with these events of Bedrock, each a kind and its payload."""
    return Answer(200, [_amazon_event(*one) for one in data], "application/vnd.amazon.eventstream")


def _amazon_event(kind: str, payload: dict[str, Any]) -> bytes:
    values = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in values.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    event = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return event + struct.pack("!I", zlib.crc32(event))
