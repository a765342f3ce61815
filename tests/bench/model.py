"""The model of the benches, a process of its own: `python -m tests.bench.model --port 8080`.

What it answers is asked for by the agent's prompt: `stream 40 0.05` is 40 chunks that say when they were sent, 0.05 s
apart; `count` counts the last number that was said down by one; anything else is three words. It never waits of itself.

`endless 0.05 NAME` speaks on and on, and `silent NAME` says nothing. What happens to the requests of such a name is
printed, a line each: the name, `begins`, `speaks` (its first chunk) or `gone` (its client), and the monotonic time.
"""

import argparse
import contextlib
import re
import signal
import sys
import time

from tests.servers.http_connection import Connection
from tests.servers.model_server import ModelServer, Record, Reply, Request

SENT = "@sent@"
"""What the time of sending, in ns since the epoch, takes the place of."""

ENDLESS = 2000
"""Chunks that nobody waits for the end of."""
SILENCE = 3600.0
"""Seconds that nobody waits for."""


class _Stamping(Connection):
    async def send_chunk(self, data: bytes, *, last: bool = False) -> None:
        await super().send_chunk(data.replace(SENT.encode(), b"%d" % time.time_ns()), last=last)


class StampingServer(ModelServer):
    """A scripted model server whose chunks say when they were sent, and which prints what becomes of named requests."""

    async def _converse(self, client: Connection) -> None:
        await super()._converse(_Stamping(client._inbox, client._writer))

    def _note(self, record: Record, **facts: object) -> None:
        super()._note(record, **facts)
        match facts:
            case {"status": _}:
                _tell(record, "begins", record.time)
            case {"chunks_sent": 1}:
                _tell(record, "speaks", time.monotonic())
            case {"client_disconnected_at": float(at)}:
                _tell(record, "gone", at)
            case _:
                pass


def _tell(record: Record, event: str, at: float) -> None:
    match record.request.system.split():
        case ["endless", _, name] | ["silent", name]:
            print(name, event, at, flush=True)
        case _:
            pass


def answer(request: Request) -> Reply:
    """What the model says."""
    match request.system.split():
        case ["stream", chunks, interval]:
            return Reply(chunks=[f"{SENT} "] * int(chunks), interval=float(interval))
        case ["endless", interval, _]:
            return Reply(chunks=["token "] * ENDLESS, interval=float(interval))
        case ["silent", _]:
            return Reply(delay=SILENCE)
        case ["count"]:
            return Reply(text=str(int(re.findall(r"\d+", request.last_user)[-1]) - 1))
        case _:
            return Reply(text="All is well.")


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description="The model of the benches.")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), StampingServer(options.port, keep=0) as server:
        server.script(answer)
        signal.pause()


if __name__ == "__main__":
    main()
