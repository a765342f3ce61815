"""The model server of the benches: `python -m tests.bench.processes.model --port 8080`.

The agent's prompt selects the reply:

    stream 40 0.05                 40 chunks, 0.05 s apart; each holds its time of sending
    together 200 40 0.05 0 NAME    the same, but all begin together, 0 s after the 200th request with this NAME,
                                   spread over the first 0.05 s
    endless 0.05 NAME              chunks without end
    silent NAME                    no reply
    any other prompt               three words

The chunks of `stream` and `together` are prepared in advance. The server adds no delay.

For each request with a NAME the server prints its events, a line each: the name, the event and the monotonic time. The
events are `begins`, `speaks` (its first chunk is sent) and `gone` (its client has disconnected). For the requests of
`together` it prints only that they begin.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections import defaultdict

from aiohttp import web

from roboco.lab.servers.dialect import Dialect
from roboco.lab.servers.model_server import begin_stream
from tests.support.servers.model_server import ModelServer, Reply, Request, RequestRecord

SENT_MARK = b"@sent@"
"""Placeholder in a chunk for the time of sending, in ns since the epoch."""

ENDLESS_CHUNKS = 2000
"""Number of chunks that outlasts every bench."""
SILENCE_SECONDS = 3600.0
"""Delay that outlasts every bench."""


class _StartGroup:
    """Requests that begin together; `start` is the time of the event loop at which they begin."""

    def __init__(self) -> None:
        self.arrived = 0
        self.start: asyncio.Future[float] = asyncio.get_running_loop().create_future()


class BenchModelServer(ModelServer):
    """A scripted model server that can stream many stamped chunks, and prints the events of named requests."""

    def __init__(self, port: int) -> None:
        super().__init__(port, keep=0, dialect="lenient")
        self._groups: defaultdict[str, _StartGroup] = defaultdict(_StartGroup)

    async def _answer(self, http: web.BaseRequest, record: RequestRecord) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        match record.request.system.split():
            case ["stream", chunks, interval]:
                return await _stream(http, record.request, int(chunks), float(interval), loop.time())
            case ["together", streams, chunks, interval, hold, name]:
                group = self._groups[name]
                place, group.arrived = group.arrived, group.arrived + 1
                if group.arrived == int(streams):
                    print(name, "begins", time.monotonic(), flush=True)
                    group.start.set_result(loop.time() + float(hold))
                start = await group.start + float(interval) * place / int(streams)
                return await _stream(http, record.request, int(chunks), float(interval), start)
            case _:
                return await super()._answer(http, record)

    def _note(self, record: RequestRecord, **facts: object) -> None:
        super()._note(record, **facts)
        match facts:
            case {"status": _}:
                _print_event(record, "begins", record.time)
            case {"chunks_sent": 1}:
                _print_event(record, "speaks", time.monotonic())
            case {"client_disconnected_at": float(at)}:
                _print_event(record, "gone", at)
            case _:
                pass


async def _stream(
    http: web.BaseRequest, request: Request, chunks: int, interval: float, due: float
) -> web.StreamResponse:
    """Write each chunk when it is due; the transport buffers chunks that the client has not read yet."""
    stream = Dialect().stream(request, Reply(chunks=[f"{SENT_MARK.decode()} "]))
    before, after = stream.chunks[0].split(SENT_MARK)
    before = b"%x\r\n%s" % (len(before) + 19 + len(after), before)
    loop, response = asyncio.get_running_loop(), await begin_stream(http, Reply())
    await response.write(stream.opening)
    for _ in range(chunks):
        await asyncio.sleep(due - loop.time())
        due += interval
        assert http.transport is not None, "the handler is cancelled when its client has gone"
        http.transport.write(b"%s%d%s\r\n" % (before, time.time_ns(), after))
    await response.write_eof(stream.ending)
    return response


def _print_event(record: RequestRecord, event: str, at: float) -> None:
    match record.request.system.split():
        case ["endless", _, name] | ["silent", name]:
            print(name, event, at, flush=True)
        case _:
            pass


def answer(request: Request) -> Reply:
    """Return the reply that the prompt selects."""
    match request.system.split():
        case ["endless", interval, _]:
            return Reply(chunks=["token "] * ENDLESS_CHUNKS, interval=float(interval))
        case ["silent", _]:
            return Reply(delay=SILENCE_SECONDS)
        case _:
            return Reply(text="All is well.")


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description="The model server of the benches.")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), BenchModelServer(options.port) as server:
        server.script(answer)
        signal.pause()


if __name__ == "__main__":
    main()
