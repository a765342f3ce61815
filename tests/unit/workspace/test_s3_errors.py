"""Any error of an S3 store, or of a proxy before it, is temporary: no answer of it is taken for one of the store."""

import io
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from roboco.errors import TransientError
from roboco.workspace.s3 import S3Objects, connect_s3

HTML = "<!DOCTYPE html><html><body>We are back soon.</body></html>"
XHTML = "<html><body>We are back soon.</body></html>"
XML = "<?xml version='1.0'?><Error><Code>{}</Code><Message>no</Message></Error>"
ANSWERS = [
    *((status, "text/html", HTML) for status in (200, 204, 301, 400, 401, 403, 404, 405, 409, 411, 412, 413, 416)),
    *((status, "text/html", HTML) for status in (429, 500, 501, 502, 503, 504, 507, 599)),
    (200, "text/html", XHTML),
    (200, "text/plain", ""),
    *((400, "application/xml", XML.format(code)) for code in ("ExpiredToken", "QuotaExceeded", "NeverHeardOf")),
    *((403, "application/xml", XML.format(code)) for code in ("AccessDenied", "InvalidAccessKeyId", "XStorageFull")),
    (404, "application/xml", XML.format("NoSuchBucket")),  # a HEAD has no body, so it cannot be distinguished there
    (500, "application/xml", XML.format("InternalError")),
    (503, "application/xml", XML.format("SlowDown")),
    (503, "application/xml", "<Error><Code>cut of"),
    (507, "application/xml", XML.format("XMinioStorageFull")),
]
CALLS: dict[str, Callable[[S3Objects], object]] = {
    "put": lambda objects: objects.put("a/b", b"x"),
    "create": lambda objects: objects.put("a/b", b"x", if_none=True),
    "replace": lambda objects: objects.put("a/b", b"x", if_match='"tag"'),
    "get": lambda objects: objects.get("a/b"),
    "put_from": lambda objects: objects.put_from("a/b", io.BytesIO(b"x")),
    "copy": lambda objects: objects.copy("a/b", "a/c"),
    "read": lambda objects: objects.read("a/b", 0, 5),
    "read_last": lambda objects: objects.read_last("a/b", 5),
    "size": lambda objects: objects.size("a/b"),
    "metadata": lambda objects: objects.metadata("a/b"),
    "names": lambda objects: objects.names("a/"),
    "names_after": lambda objects: objects.names_after("a/", "b", 5),
    "tree": lambda objects: list(objects.tree("a/")),
    "folders": lambda objects: objects.folders("cursor", 5),
}


BY_HEAD = frozenset({"copy", "size", "metadata"})


class Handler(BaseHTTPRequestHandler):
    """Gives the same answer to every request."""

    answer: ClassVar[tuple[int, str, str]] = ANSWERS[0]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, kind, body = self.answer
        data = b"" if status == 204 else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def objects() -> Iterator[S3Objects]:
    """The objects of a store that answers with `Handler.answer`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "a")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        client = connect_s3(f"http://127.0.0.1:{server.server_port}", attempts=1, timeout=5)
        yield S3Objects(client, "records", "below")
        client.close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("call", CALLS)
def test_no_answer_of_a_proxy_is_taken_for_one_of_the_store(
    objects: S3Objects, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[tuple[object, str]] = []
    for answer in ANSWERS if call not in BY_HEAD else [one for one in ANSWERS if "NoSuchBucket" not in one[2]]:
        monkeypatch.setattr(Handler, "answer", answer)
        try:
            found: object = CALLS[call](objects)
        except TransientError as error:
            if "; " not in str(error) and ", or correct" not in str(error):
                wrong.append((answer[:2], f"no remedy: {error}"))
        except Exception as error:
            wrong.append((answer[:2], repr(error)[:200]))
        else:
            wrong.append((answer, f"accepted as {found!r}"))
    assert not wrong, "\n".join(map(str, wrong))
