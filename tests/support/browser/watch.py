"""The watch of a browser's context: errors of its pages, violations of their policy, and requests to other hosts.

page ─► console, uncaught errors ───────────────────────────► problems
     ─► request of a page ──────────── another origin ──────► problems
     ─► request of a worker of the page ─► proxy of the context ─► problems; the proxy is for all other hosts
"""

import re
import socket
import threading
from contextlib import suppress
from typing import Any, Final, Self

from playwright.sync_api import BrowserContext

OUTAGE: Final = (r"net::ERR_", r"status of (502|503|504)")
"""Patterns of console errors that any request causes while the gateway does not run, or cannot reach its servers."""
LOCAL_SCHEMES: Final = ("blob:", "data:")
OWN_REQUEST: Final = re.compile(r"CONNECT [a-z0-9.-]+\.(googleapis|google|gvt1)\.com:443 ")
"""A request of Chromium itself, for example about a form. A page's policy refuses such a host, with a console error."""

OTHER_PROGRAM: Final = re.compile(r"PRI \* HTTP/2\.0$")
"""HTTP/2 without TLS, which no browser speaks to a proxy.

A SeaweedFS of another test looks for its admin server 10,000 ports above that server's HTTP port, whatever gRPC port it
was given. The system may have given that port to this proxy.
"""


class ForeignRequests:
    """A proxy that serves nothing, and records the first line of each request.

    A context uses it for all hosts but this machine. So it sees requests of shared workers, too, which no page reports.
    """

    def __enter__(self) -> Self:
        self.lines: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for thread in self._connections:
            thread.join()
        self._listener.close()

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            # A browser opens connections on which it sends nothing. The others do not wait for them.
            self._connections.append(threading.Thread(target=self._record, args=(connection,), daemon=True))
            self._connections[-1].start()

    def _record(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            line = connection.recv(4096).split(b"\r\n")[0].decode(errors="replace")
            if not (OWN_REQUEST.match(line) or OTHER_PROGRAM.match(line)):
                self.lines.append(line)


class PageWatch:
    """The problems of all pages of a context, as texts. `requests` are the addresses of all requests."""

    def __init__(self, context: BrowserContext, origin: str, foreign: ForeignRequests) -> None:
        self.requests: list[str] = []
        self._origin = origin.rstrip("/")
        self._foreign = foreign
        self._problems: list[str] = []
        self._allowed: list[str] = []
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._problems.append(f"uncaught: {error.error}"))
        context.on("request", self._on_request)
        context.on("dialog", self._on_dialog)

    def allow(self, *patterns: str) -> None:
        """Ignore the problems of this context in which one of these patterns is found, such as those of `OUTAGE`."""
        self._allowed += patterns

    @property
    def problems(self) -> list[str]:
        """All problems so far, except the allowed ones."""
        found = [*self._problems, *(f"request to another host: {line}" for line in self._foreign.lines)]
        return [problem for problem in found if not any(re.search(pattern, problem) for pattern in self._allowed)]

    def check(self) -> None:
        """Raise AssertionError with the problems, if there are any."""
        assert not self.problems, "the page has problems:\n" + "\n".join(self.problems)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self._problems.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Any) -> None:
        self.requests.append(request.url)
        if request.url.startswith(LOCAL_SCHEMES) or f"{request.url}/".startswith(f"{self._origin}/"):
            return
        self._problems.append(f"request to another origin: {request.method} {request.url}")

    def _on_dialog(self, dialog: Any) -> None:
        self._problems.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.dismiss()
