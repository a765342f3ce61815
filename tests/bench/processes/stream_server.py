"""A web server whose clients follow tasks: the gateway, or the plainest stream that Starlette and redis.asyncio allow.

    python -m tests.bench.processes.stream_server --url redis://... --workspace file:///... --port 8000 --plain 0 \\
        --name NAME --tasks 200

The plain server subscribes to the tasks NAME-0, NAME-1, ... with one connection and passes each message on as it is: it
has no log, no order of two channels, no resumption and no pings. It ends with SIGTERM.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from roboco import Orchestrator, Settings, Task
from roboco.gateway import GatewaySettings, create_app
from roboco.gateway.principal import Principal
from roboco.redis.keys import Keys
from tests.bench.processes.many_followers import task_of_logs

Readers = defaultdict[str, set[asyncio.Queue[bytes]]]
"""The queues of the clients, by task."""


def gateway_app(options: argparse.Namespace) -> ASGIApp:
    """Return the gateway. It finds tasks that exist as logs alone."""
    url = options.url
    settings = Settings(redis_url=url, broker_url=url.partition("?")[0], workspace=options.workspace)
    orchestrator = Orchestrator(settings)
    app = create_app(orchestrator, GatewaySettings(authentication=False))

    async def find(_: Principal, task_id: str) -> Task:
        return task_of_logs(task_id, orchestrator)

    app.state.gateway.followed_task = find
    return app


def plain_app(options: argparse.Namespace) -> ASGIApp:
    """Return an application that passes the messages of the channels on."""
    readers: Readers = defaultdict(set)

    async def frames(task_id: str) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        readers[task_id].add(queue)
        try:
            yield b": open\n\n"
            while True:
                yield await queue.get()
        finally:
            readers[task_id].discard(queue)

    async def follow(request: Request) -> StreamingResponse:
        return StreamingResponse(frames(request.path_params["task_id"]), media_type="text/event-stream")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        subscriber = asyncio.create_task(_pass_on(options, readers))
        yield
        subscriber.cancel()

    return Starlette(routes=[Route("/v1/tasks/{task_id}/events", follow)], lifespan=lifespan)


async def _pass_on(options: argparse.Namespace, readers: Readers) -> None:
    channels = {Keys().content(f"{options.name}-{n}"): f"{options.name}-{n}" for n in range(options.tasks)}
    async with Redis.from_url(options.url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
        await pubsub.subscribe(*channels)
        while True:
            message = await pubsub.get_message(timeout=None)
            if message is not None:
                frame = b"data: " + message["data"] + b"\n\n"
                for queue in readers[channels[message["channel"].decode()]]:
                    queue.put_nowait(frame)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description="A server of many streams, for the benches.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--plain", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--tasks", type=int, required=True)
    options = parser.parse_args()
    app = plain_app(options) if options.plain else gateway_app(options)
    uvicorn.run(
        app, host="127.0.0.1", port=options.port, access_log=False, log_level="warning", timeout_graceful_shutdown=3
    )


if __name__ == "__main__":
    main()
