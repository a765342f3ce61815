"""The scripted model server of the tests, and as a process for benchmarks.

`python -m tests.support.servers.model_server --port 8080 --tokens 200 --interval 0.02`
"""

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply as Reply
from roboco.lab.servers.chat_protocol import ChatRequest as Request
from roboco.lab.servers.dialect import Dialect
from roboco.lab.servers.model_server import ModelServer as PlainModelServer
from roboco.lab.servers.model_server import RequestRecord, echo
from tests.support.servers.dialects import DIALECTS

__all__ = ["ModelServer", "Refusal", "Reply", "Request", "RequestRecord"]


class ModelServer(PlainModelServer):
    """A scripted model server that is as strict as OpenAI, or as the provider that `dialect` names."""

    def __init__(self, port: int = 0, *, dialect: Dialect | str = "openai", **options: Any) -> None:
        super().__init__(port, dialect=DIALECTS[dialect]() if isinstance(dialect, str) else dialect, **options)

    def take_violations(self) -> list[str]:
        """Return the violations, and forget them, because they are expected."""
        with self._changed:
            taken, self._violations = self._violations, []
        return taken

    def wait_for(self, predicate: Callable[[list[RequestRecord]], bool], timeout: float = 120.0) -> list[RequestRecord]:
        """Return the records once they satisfy the predicate. Raise TimeoutError with them if they do not in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(list(self._records)), timeout):
                raise TimeoutError(f"not within {timeout} s, with {list(self._records)}")
            return list(self._records)


def main() -> None:
    """Serve until SIGTERM with the options' number of tokens and interval for all requests, or with an echo."""
    parser = argparse.ArgumentParser(description="A scripted model server for benchmarks.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--tokens", type=int, help="chunks of each answer; without it, an echo")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before the first token")
    parser.add_argument("--interval", type=float, default=0.0, help="seconds from token to token")
    options = parser.parse_args()

    def respond(request: Request) -> Reply:
        tokens = None if options.tokens is None else ["token "] * options.tokens
        return replace(echo(request), chunks=tokens, delay=options.delay, interval=options.interval)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), ModelServer(options.port, keep=0, dialect="lenient") as server:
        server.script(respond)
        print(server.base_url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
