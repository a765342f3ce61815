"""`python -m tests.bench.gateway_bodies`: how long the worst bodies of JSON keep the event loop of a gateway.

client (thread) ─► POST with the largest body that is allowed ─► uvicorn, application ─► refusal
                   the loop counts the CPU time between two turns of a task that runs each millisecond

CPU time is the delay of all other streams of the process, whatever else the machine does.
"""

import asyncio
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvicorn
from rich.console import Console

from roboco.gateway.bounded_http import BoundedHttpProtocol
from tests.support.gateway_rest import KEY, rest_world

SIZE: Final = 8 * 1024 * 1024
TICK_SECONDS: Final = 0.001
BODIES: Final = {
    "text": ("/v1/tasks", '{"team": "desk", "prompt": "%s"}', "x", ""),
    "escaped text": ("/v1/tasks", '{"team": "desk", "prompt": "%s"}', "\\n", ""),
    "numbers": ("/v1/tasks", '{"team": "desk", "prompt": "x", "context": {"a": [%s]}}', "1", ","),
    "arrays": ("/v1/tasks", '{"team": "desk", "prompt": "x", "context": {"a": [%s]}}', "[]", ","),
    "unknown fields": ("/v1/tasks", '{"team": "desk", "prompt": "x", %s}', '"%x":1', ","),
    "text for OpenAI": ("/openai/v1/responses", '{"model": "none", "input": "%s"}', "x", ""),
    "wrong messages for OpenAI": ("/openai/v1/chat/completions", '{"model": "desk", "messages": [%s]}', "1", ","),
    "wrong goals for roboto": ("/v1/ai/chats", '{"goals": [%s]}', "1", ","),
}
"""The route, the body around the parts, a part, and the text between two parts."""


def body_of(frame: str, part: str, between: str, values: int) -> bytes:
    """Return a body of at most SIZE bytes. With text between parts, it has at most this number of parts."""
    size = SIZE - len(frame)
    if not between:
        return (frame % (part * (size // len(part)))).encode()
    count = min(values, size // (len(part % 10**6 if "%" in part else part) + len(between)))
    return (frame % between.join(part % number if "%" in part else part for number in range(count))).encode()


def post(port: int, path: str, body: bytes) -> int:
    """Return the status of the response."""
    head = f"POST {path} HTTP/1.1\r\nHost: testserver\r\n{KEY}: local\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
        with suppress(ConnectionError):  # refused before the end of the body
            connection.sendall(body)
        return int(connection.recv(65_536).split(b" ", 2)[1])


async def worst_delays(server: uvicorn.Server, values: int) -> Iterator[tuple[str, int, int, float, float]]:
    """Return for each body its size, the status, and the most CPU and wall time of the loop without a turn."""
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(TICK_SECONDS)
    port = server.servers[0].sockets[0].getsockname()[1]
    for path in {path for path, *_ in BODIES.values()}:
        await asyncio.to_thread(post, port, path, b"{}")  # the first request of a route costs more
    found = []
    for name, (path, frame, part, between) in BODIES.items():
        body = body_of(frame, part, between, values)
        sending = asyncio.create_task(asyncio.to_thread(post, port, path, body))
        cpu = wall = 0.0
        while not sending.done():
            before, began = time.thread_time(), time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            cpu, wall = max(cpu, time.thread_time() - before), max(wall, time.perf_counter() - began)
        found.append((name, len(body), sending.result(), cpu, wall))
    server.should_exit = True
    await serving
    return iter(found)


def main() -> None:
    """Print a line for each body."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder, rest_world(Path(folder)) as world:
        for values in (SIZE, 49_000):
            config = uvicorn.Config(world.app, port=0, log_level="error", http=BoundedHttpProtocol, lifespan="off")
            for name, size, status, cpu, wall in asyncio.run(worst_delays(uvicorn.Server(config), values)):
                console.print(f"{name}, {size:,} bytes: {status}, {cpu * 1000:.1f} ms of CPU, {wall * 1000:.1f} ms")


if __name__ == "__main__":
    main()
