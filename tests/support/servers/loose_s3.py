"""An S3 store in memory that lacks chosen features: conditions on writes, user metadata, links, or a correct clock.

It checks no signature. It records requests, so that a test can count them.
"""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_META = "x-amz-meta-"


@dataclass(frozen=True)
class LooseObject:
    """A stored object."""

    data: bytes
    metadata: dict[str, str]

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


@dataclass
class LooseS3:
    """A running store with one bucket."""

    conditions: str = "honoured"
    """Treatment of conditions: "honoured", "ignored", the only one that is honoured, or a status that refuses both."""
    metadata: bool = True
    links: str = "honoured"
    """Treatment of links: "honoured", or the S3 error code with which they are refused."""
    clock_offset: float = 0.0
    """Seconds by which the store's clock is ahead."""
    unavailable: bool = False
    """True to answer every request with 503."""
    bucket: str = "loose"
    objects: dict[str, LooseObject] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def writes(self) -> list[str]:
        """The keys of all writes, in order."""
        return [key for method, key in self.requests if method == "PUT"]


@contextmanager
def loose_s3(**lacks: Any) -> Iterator[LooseS3]:
    """Run a store that lacks these features."""
    store = LooseS3(**lacks)
    handler = type("_Bound", (_Handler,), {"store": store, "lock": threading.Lock()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        store.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    store: ClassVar[LooseS3]
    lock: ClassVar[threading.Lock]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as its base has it
        """Log nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(time.time() + self.store.clock_offset, usegmt=True)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        with self._answering() as key:
            if key is None:
                return
            source = self.headers.get("x-amz-copy-source")
            if source is not None:
                self._copy(unquote(source).partition("/")[2].removeprefix(f"{self.store.bucket}/"), key)
            elif (refused := self._condition_error(key)) is not None:
                self._fail(*refused)
            else:
                self.store.objects[key] = kept = LooseObject(data, self._metadata())
                self._send(200, headers={"ETag": kept.etag})

    def do_GET(self) -> None:
        with self._answering() as key:
            if key is None:
                return
            asked = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
            if "X-Amz-Signature" in asked and self.store.links != "honoured":
                self._fail(403, self.store.links)
            elif not key:
                self._send_listing(asked)
            elif key not in self.store.objects:
                self._fail(404, "NoSuchKey")
            else:
                self._send_object(self.store.objects[key])

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        with self._answering() as key:
            if key is not None:
                self.store.objects.pop(key, None)
                self._send(204)

    @contextmanager
    def _answering(self) -> Iterator[str | None]:
        """Yield the key of the request, "" for the bucket, or None if the request is answered already."""
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{self.store.bucket}").removeprefix("/")
        with self.lock:
            self.store.requests.append((self.command, key))
            if self.store.unavailable:
                self._fail(503, "ServiceUnavailable")
                yield None
            else:
                yield key

    def _condition_error(self, key: str) -> tuple[int, str] | None:
        none, tag, kept = self.headers.get("if-none-match"), self.headers.get("if-match"), self.store.objects.get(key)
        known = self.store.conditions
        if (none is None and tag is None) or known == "ignored" or (none is None and known == "If-None-Match"):
            return None
        if known.isdecimal():
            return int(known), "NotImplemented"
        unmet = (none is not None and kept is not None) or (tag is not None and (kept is None or kept.etag != tag))
        return (412, "PreconditionFailed") if unmet else None

    def _metadata(self) -> dict[str, str]:
        if not self.store.metadata:
            return {}
        return {name.lower(): value for name, value in self.headers.items() if name.lower().startswith(_META)}

    def _copy(self, source: str, key: str) -> None:
        kept = self.store.objects.get(source)
        if kept is None:
            self._fail(404, "NoSuchKey")
        else:
            self.store.objects[key] = kept
            self._send(200, f"<CopyObjectResult><ETag>{escape(kept.etag)}</ETag></CopyObjectResult>".encode())

    def _send_object(self, kept: LooseObject) -> None:
        asked, data, status = self.headers.get("range"), kept.data, 200
        if asked is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(data) - int(last))
            if start >= len(data):
                return self._fail(416, "InvalidRange")
            data, status = data[start : int(last) + 1 if first and last else None], 206
        return self._send(status, data, {"ETag": kept.etag} | kept.metadata)

    def _send_listing(self, asked: dict[str, list[str]]) -> None:
        if "list-type" not in asked:
            return self._fail(404, "NoSuchLifecycleConfiguration") if asked else self._send(200)
        prefix, cut = asked.get("prefix", [""])[0], asked.get("delimiter", [""])[0]
        keys, folders = list[str](), set[str]()
        for key in sorted(self.store.objects):
            if key.startswith(prefix):
                name, below, _ = key.removeprefix(prefix).partition(cut) if cut else (key, "", "")
                folders |= {f"{prefix}{name}{below}"} if below else set()
                keys += [] if below else [key]
        listed = "".join(f"<Contents><Key>{escape(key)}</Key></Contents>" for key in keys)
        listed += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        return self._send(200, f"<ListBucketResult>{listed}</ListBucketResult>".encode())

    def _fail(self, status: int, code: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>it is so</Message></Error>".encode())

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
