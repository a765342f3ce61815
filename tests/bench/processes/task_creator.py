"""A process that offers task creations to a gateway at a fixed rate, however late it answers (open loop).

    python -m tests.bench.processes.task_creator --port 8000 --team desk --rate 500 --seconds 10 --output FILE

It writes one object of JSON: for each request its status, and the seconds from its time in the schedule to its answer.
Status 0 is a connection that broke, -1 a request without an answer for TIMEOUT seconds. Each has its own id, and waits
for no other one: it uses a connection that is idle, or a new one.
"""

import argparse
import asyncio
import json
import time
import uuid
from pathlib import Path

TIMEOUT = 30.0
"""Seconds after which a request counts as one that hangs."""
BROKEN, HANGING = 0, -1
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TaskCreator:
    """The client. `answers` holds status and seconds of each request."""

    def __init__(self, port: int, team: str) -> None:
        self.answers: list[tuple[int, float]] = []
        self._port = port
        self._team = team
        self._idle: list[Connection] = []

    async def offer(self, rate: float, seconds: float) -> None:
        """Send `rate` requests a second, each at its time, and wait for all answers."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(round(rate * seconds)):
                due = began + number / rate
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                group.create_task(self._create(due))

    async def _create(self, due: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await self._send()
        except TimeoutError:
            status = HANGING
        except (OSError, EOFError):
            status = BROKEN
        self.answers.append((status, time.monotonic() - due))

    async def _send(self) -> int:
        """Send one request, and return the status of its answer."""
        body = json.dumps({"team": self._team, "prompt": "Go.", "task_id": f"task_{uuid.uuid4().hex}"}).encode()
        head = f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        opened = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = opened
        try:
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines[1:] if line)
            await reader.readexactly(int(fields["content-length"]))
        except BaseException:
            writer.transport.abort()
            raise
        self._idle.append(opened)
        return int(lines[0].split()[1])


def main() -> None:
    """Offer the requests, and write the answers."""
    parser = argparse.ArgumentParser(description="Task creations at a fixed rate, for the benches.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--team", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    creator = TaskCreator(options.port, options.team)
    began = time.monotonic()
    asyncio.run(creator.offer(options.rate, options.seconds))
    found = {"answers": creator.answers, "seconds": time.monotonic() - began}
    whole = options.output.with_suffix(".part")
    whole.write_text(json.dumps(found))
    whole.rename(options.output)


if __name__ == "__main__":
    main()
