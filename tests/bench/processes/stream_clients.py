"""A process with many connections to the streams of a web server.

    python -m tests.bench.processes.stream_clients --port 8000 --output FILE --name NAME --tasks 200 --streams 2000 \\
        --chunks 10

It follows the tasks NAME-0, NAME-1, ... at /v1/tasks/ID/events. It writes a line of JSON when all streams are open, and
one for each round, in which every task publishes `--chunks` chunks, as `many_followers` does. It ends with SIGTERM.
"""

import argparse
import asyncio
import re
import time
from pathlib import Path

from tests.bench.processes.many_followers import RoundLog

TEXT = re.compile(rb'"text":"(\d+)"')
PARALLEL_CONNECTS = 50


class Client(asyncio.Protocol):
    """A connection that reads one stream. Chunks that are older than `since` do not count."""

    def __init__(self, request: bytes, rounds: RoundLog, since: int) -> None:
        self.open = asyncio.Event()
        self._request = request
        self._rounds = rounds
        self._since = since
        self._before = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count the chunks of the data."""
        self._before += data
        end = 0
        for found in TEXT.finditer(self._before):
            end = found.end()
            if int(found[1]) >= self._since:
                self._rounds.add(found[1].decode())
        self._before = self._before[max(end, len(self._before) - 50) :]
        if b"open" in data:
            self.open.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the process: the server has ended a stream."""
        raise SystemExit(f"a stream has ended: {exc}")


async def follow(options: argparse.Namespace) -> None:
    """Open all streams, and read them."""
    rounds, since = RoundLog(options.streams * options.chunks, options.output), time.time_ns()
    limit, loop = asyncio.Semaphore(PARALLEL_CONNECTS), asyncio.get_running_loop()

    async def connect(number: int) -> None:
        path = f"/v1/tasks/{options.name}-{number % options.tasks}/events"
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()
        async with limit:
            _, client = await loop.create_connection(lambda: Client(request, rounds, since), "127.0.0.1", options.port)
            await client.open.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(options.streams):
            group.create_task(connect(number))
    rounds.write_round()
    await asyncio.Event().wait()


def main() -> None:
    """Read until SIGTERM."""
    parser = argparse.ArgumentParser(description="Clients of many streams, for the benches.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--chunks", type=int, required=True)
    asyncio.run(follow(parser.parse_args()))


if __name__ == "__main__":
    main()
