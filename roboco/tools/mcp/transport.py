"""The streams to an MCP server, HTTP or a process below the watchdog, and how the process ended."""

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from roboco.domain.team.mcp_server import McpServer
from roboco.domain.url import strip_credentials
from roboco.errors import TransientError, UsageError
from roboco.process.credential_mask import secret_texts
from roboco.tools.mcp import watchdog
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.http import BoundedClient, clean_body
from roboco.tools.mcp.tokens import GetCredential, TokenAuth, required_variable

_INHERITED_VARIABLES = ("HOME", "PATH")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_MIN_SECRET_CHARS = 4
MAX_LOGGED_LINES, MAX_LINE_CHARS = 20, 300
"""Maximum number of logged lines, counted from the end, and of characters of each."""
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
Streams = tuple[Any, Any]
"""The stream of messages from the server, and the one to it, as the `mcp` package takes them."""


@dataclass
class ServerExit:
    """The report of the watchdog: how the server ended, or "" if the worker has ended it, and the end of its stderr."""

    cause: str = ""
    stderr: bytes = b""

    def parse_report(self, report: bytes) -> None:
        """Store the watchdog's report: a line with the cause, then the stderr."""
        line, _, self.stderr = report.partition(b"\n")
        self.cause = line.decode(errors="replace")

    @property
    def message(self) -> str:
        """Return the cause for messages, or "" if there is none."""
        logged = "; the log has the end of its stderr" if self.stderr.strip() else ""
        return f" ({self.cause}{logged})" if self.cause else ""

    def log_lines(self, mask: Callable[[str], str]) -> list[str]:
        """Return the last lines of stderr for a log: printable, truncated, with secrets masked before truncation."""
        text = strip_credentials(mask(self.stderr.decode(errors="replace")))
        lines = [_printable(line) for line in re.split(r"[\r\n]+", text) if line.strip()]
        return lines[-MAX_LOGGED_LINES:]


class McpTransport:
    """The way to a server, with the secrets that it needs. `exit` is known when the streams of a process are closed."""

    def __init__(
        self, server: McpServer, confinement: Confinement, auth: TokenAuth | None, get_credential: GetCredential
    ) -> None:
        self.exit = ServerExit()
        self._values = tuple(os.environ.get(name, "") for name in server.variables)
        self._server = server
        self._confinement = confinement
        self._auth = auth
        self._get_credential = get_credential

    def mask(self, text: str) -> str:
        """Return the text with every secret masked: servers repeat what they receive."""
        return self.masker()(text)

    def masker(self) -> Callable[[str], str]:
        """Return `mask` for many texts, with the secrets of this moment."""
        values = self._values if self._auth is None else (*self._values, *self._auth.secrets)
        secrets = {secret for value in values for secret in (value, *secret_texts(value))}
        longest_first = sorted((one for one in secrets if len(one) >= _MIN_SECRET_CHARS), key=len, reverse=True)

        def mask(text: str) -> str:
            for secret in longest_first:
                text = text.replace(secret, "***")
            return text

        return mask

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Yield the streams. Raise UsageError if a variable or a credential that they need is not there."""
        try:
            found = {name: await self._get_credential(one.credential) for name, one in self._server.credentials.items()}
        except TransientError as error:
            raise UsageError(str(error)) from None
        self._values += tuple(found.values())
        async with self._opened(found) as streams:
            yield streams

    def _opened(self, credentials: dict[str, str]) -> AbstractAsyncContextManager[Streams]:
        server = self._server
        if server.command is None:
            named = {name: variable for name, variable in server.headers.items() if isinstance(variable, str)}
            values = {header: required_variable(variable) for header, variable in named.items()} | credentials
            for header, value in values.items():
                what = f"environment variable {named[header]!r}" if header in named else f"the credential of {header!r}"
                if not _HEADER_VALUE.fullmatch(value):
                    problem = "has characters that a header cannot contain, perhaps a final line break"
                    raise UsageError(f"{what} {problem}")
            return self._http(server.url or "", values)
        environment = {name: required_variable(name) for name in server.env if name not in credentials} | credentials
        if shutil.which(server.command[0]) is None:
            raise UsageError(f"program {server.command[0]!r} is not installed on this worker")
        inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
        environment = self._confinement.environment({**inherited, **environment})
        return self._stdio(self._confinement.command(server.command), environment)

    @asynccontextmanager
    async def _http(self, url: str, headers: dict[str, str]) -> AsyncIterator[Streams]:
        timeout = httpx2.Timeout(self._server.connect_timeout, read=self._server.longest_call)
        async with (
            BoundedClient(
                headers=headers, timeout=timeout, auth=self._auth, event_hooks={"response": [clean_body]}
            ) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=watchdog.MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _stdio(self, command: tuple[str, ...], environment: dict[str, str]) -> AsyncIterator[Streams]:
        """Start the command below the watchdog, and end it at the end of the context; then its exit status is known."""
        program = (str(Path(watchdog.__file__)), str(os.getpid()), ",".join(environment), *command)
        started = StdioServerParameters(
            command=sys.executable, args=["-I", "-S", *program], env=environment, encoding_error_handler="replace"
        )
        report, reported = os.pipe()
        os.set_blocking(report, False)
        with os.fdopen(report, "rb", buffering=0) as reader, os.fdopen(reported, "w") as writer:
            try:
                async with stdio_client(started, writer) as streams:
                    yield streams
            finally:
                with suppress(BlockingIOError):
                    self.exit.parse_report(reader.read(2 * watchdog.MAX_STDERR_BYTES) or b"")


def _printable(line: str) -> str:
    plain = _ESCAPE_SEQUENCE.sub("", line).replace("\t", " ")
    plain = "".join(sign if sign.isprintable() else "?" for sign in plain)
    return plain if len(plain) <= MAX_LINE_CHARS else f"{plain[:MAX_LINE_CHARS]}..."
