"""The model of the benches, a process of its own: `python -m tests.bench.model --port 8080`.

What it answers is asked for by the agent's prompt: `stream 40 0.05` is 40 chunks that say when they were sent, 0.05 s
apart; `together 200 40 0.05 0 NAME` is the same, but nobody's begins before 200 have asked under this name (and after
so many more seconds), and then they are spread over the first 0.05 s. Such chunks are bytes that are made beforehand.
`count` counts the last number that was said down by one; `tools 20` calls the tool `nap` so many times at once;
anything else is three words. It never waits of itself.

`endless 0.05 NAME` speaks on and on, and `silent NAME` says nothing. What happens to the requests of such a name is
printed, a line each: the name, `begins`, `speaks` (its first chunk) or `gone` (its client), and the monotonic time;
also that those of a name begin together.
"""

import argparse
import asyncio
import contextlib
import re
import signal
import sys
import time
from collections import defaultdict

from tests.support.servers import chat_protocol
from tests.support.servers.http_connection import ClientGone, Connection
from tests.support.servers.model_server import ModelServer, Reply, Request, RequestRecord

SENT = b"@sent@"
"""What the time of sending, in ns since the epoch, takes the place of."""

ENDLESS = 2000
"""Chunks that nobody waits for the end of."""
SILENCE = 3600.0
"""Seconds that nobody waits for."""
HEAD = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}


class _Together:
    """Those who begin together: `start` is the time of the event loop at which they do."""

    def __init__(self) -> None:
        self.there = 0
        self.start: asyncio.Future[float] = asyncio.get_running_loop().create_future()


class QuickServer(ModelServer):
    """A scripted model server that can stream many stamped chunks, and prints what becomes of named requests."""

    def __init__(self, port: int) -> None:
        super().__init__(port, keep=0)
        self._groups: defaultdict[str, _Together] = defaultdict(_Together)

    async def _answer(self, client: Connection, record: RequestRecord) -> None:
        loop = asyncio.get_running_loop()
        match record.request.system.split():
            case ["stream", chunks, interval]:
                await _stream(client, record.request, int(chunks), float(interval), loop.time())
            case ["together", streams, chunks, interval, hold, name]:
                group = self._groups[name]
                place, group.there = group.there, group.there + 1
                if group.there == int(streams):
                    print(name, "begins", time.monotonic(), flush=True)
                    group.start.set_result(loop.time() + float(hold))
                start = await group.start + float(interval) * place / int(streams)
                await _stream(client, record.request, int(chunks), float(interval), start)
            case _:
                await super()._answer(client, record)

    def _note(self, record: RequestRecord, **facts: object) -> None:
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


async def _stream(client: Connection, request: Request, chunks: int, interval: float, due: float) -> None:
    """Write a chunk whenever one is due; what the client has not read yet is held for it."""
    stream = chat_protocol.stream(request, Reply(chunks=[f"{SENT.decode()} "]))
    before, after = stream.chunks[0].split(SENT)
    before = b"%x\r\n%s" % (len(before) + 19 + len(after), before)
    loop, write = asyncio.get_running_loop(), client._writer.write
    await client.send_head(Reply(), HEAD)
    await client.send_chunk(stream.opening)
    for _ in range(chunks):
        await asyncio.sleep(due - loop.time())
        due += interval
        if client._inbox.gone.done():
            raise ClientGone(client._inbox.gone.result())
        write(b"%s%d%s\r\n" % (before, time.time_ns(), after))
    await client.send_chunk(stream.ending, last=True)


def _tell(record: RequestRecord, event: str, at: float) -> None:
    match record.request.system.split():
        case ["endless", _, name] | ["silent", name]:
            print(name, event, at, flush=True)
        case _:
            pass


def answer(request: Request) -> Reply:
    """What the model says."""
    match request.system.split():
        case ["endless", interval, _]:
            return Reply(chunks=["token "] * ENDLESS, interval=float(interval))
        case ["silent", _]:
            return Reply(delay=SILENCE)
        case ["count"]:
            return Reply(text=str(int(re.findall(r"\d+", request.last_user)[-1]) - 1))
        case ["tools", calls] if not request.tool_results:
            return Reply(tool_calls=[("nap", {"number": number}) for number in range(int(calls))])
        case _:
            return Reply(text="All is well.")


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description="The model of the benches.")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), QuickServer(options.port) as server:
        server.script(answer)
        signal.pause()


if __name__ == "__main__":
    main()
