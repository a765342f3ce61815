"""`python -m tests.bench.peers.dbos_worker --executor NAME`: the errand as a DBOS workflow whose turns are steps.

Every worker polls the queue of workflows. A step writes its tokens to a DBOS stream, or publishes them in Redis if the
environment has its URL. Each process has another executor id: a process that starts again with the same id continues
its workflows. Steps are preemptible: a cancelled workflow ends its model call.
"""

import argparse
import os
import signal
from functools import cache

from dbos import DBOS
from openai import AsyncOpenAI
from redis.asyncio import Redis

from tests.bench.peers.model_call import astream_tokens

NAME, QUEUE, STREAM, VERSION = "errand", "errands", "text", "1"
CONCURRENCY = 100
POLL_INTERVAL = 0.05
"""Seconds between two polls of the queue by a worker; the default is a second."""


@cache
def _model() -> AsyncOpenAI:
    return AsyncOpenAI(max_retries=0)


@cache
def _redis() -> Redis | None:
    url = os.environ.get("PEER_REDIS")
    return Redis.from_url(url, max_connections=2 * CONCURRENCY) if url else None


async def turn(prompt: str, texts: list[str]) -> str:
    """Relay each token of one agent's turn, and return its text."""
    reply = ""
    async for text in astream_tokens(_model(), prompt, texts):
        await relay(text)
        reply += text
    return reply


async def relay(text: str) -> None:
    """Send the token to readers."""
    if redis := _redis():
        await redis.publish(f"errand:{DBOS.workflow_id}", text)
    else:
        await DBOS.write_stream_async(STREAM, text)


def main() -> None:
    """Run workflows until SIGTERM."""
    parser = argparse.ArgumentParser(description="A worker of the errand on DBOS.")
    parser.add_argument("--executor", required=True)
    options = parser.parse_args()
    step = DBOS.step(preemptible=True)(turn)

    async def errand(prompts: list[str]) -> str:
        texts: list[str] = []
        for prompt in prompts:
            texts.append(await step(prompt, texts))
        return texts[-1]

    DBOS(
        config={
            "name": NAME,
            "system_database_url": os.environ["PEER_DATABASE"],
            "application_version": VERSION,
            "executor_id": options.executor,
            "max_executor_threads": CONCURRENCY,
            "log_level": "WARNING",
        }
    )
    DBOS.workflow(name=NAME)(errand)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_INTERVAL)
    print("ready.", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
