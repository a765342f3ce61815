"""A process that relays chunks from a model's stream to PUBLISH without Roboco.

    python -m tests.bench.processes.relay_loop --url redis://... --model http://127.0.0.1:8080/v1 --jobs LIST

It takes one job after another from the list. A job is a JSON object with the fields `way`, `prompt`, `streams`,
`channel` and `size`, the size of a message. The process publishes on CHANNEL:0, CHANNEL:1, ... The ways are `openai`,
the loop of the package in a thread for each stream; and `raw`, all streams in one event loop, which reads lines with
httpx2 and parses them as JSON. Both publish each chunk. The process ends with SIGTERM.
"""

import argparse
import asyncio
import json
import threading
from typing import Any

import httpx2
from openai import OpenAI
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from roboco.redis.client import connect
from tests.bench.harness.bare_model import request_arguments


def padded_message(text: str, size: int) -> str:
    """Return a message of this size that holds the text."""
    return json.dumps({"text": text, "rest": "x" * (size - len(text) - len('{"text": "", "rest": ""}'))})


def relay_by_openai(job: dict[str, Any], number: int, client: OpenAI, redis: Redis) -> None:
    """Relay one stream, in this thread."""
    with client.chat.completions.create(**request_arguments(_messages(job))) as chunks:
        for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                redis.publish(f"{job['channel']}:{number}", padded_message(text, job["size"]))


async def relay_raw(job: dict[str, Any], number: int, client: httpx2.AsyncClient, redis: AsyncRedis) -> None:
    """Relay one stream, in this event loop."""
    async with client.stream("POST", "/chat/completions", json=request_arguments(_messages(job))) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices and (text := choices[0]["delta"].get("content")):
                    await redis.publish(f"{job['channel']}:{number}", padded_message(text, job["size"]))


async def relay_all_raw(job: dict[str, Any], model: str, url: str) -> None:
    """Relay all streams of the job."""
    limits = httpx2.Limits(max_connections=None)
    async with (
        AsyncRedis.from_url(url) as redis,
        httpx2.AsyncClient(base_url=model, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):
        for number in range(job["streams"]):
            group.create_task(relay_raw(job, number, client, redis))


def relay_all_by_openai(job: dict[str, Any], client: OpenAI, redis: Redis) -> None:
    """Relay all streams of the job."""
    threads = [
        threading.Thread(target=relay_by_openai, args=(job, number, client, redis)) for number in range(job["streams"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _messages(job: dict[str, Any]) -> list[dict[str, str]]:
    return [{"role": "system", "content": job["prompt"]}, {"role": "user", "content": "Go."}]


def main() -> None:
    """Process jobs until SIGTERM."""
    parser = argparse.ArgumentParser(description="Relay chunks without Roboco, for the benches.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--jobs", required=True)
    options = parser.parse_args()
    with (
        Redis.from_url(options.url) as jobs,
        connect(options.url, 1_000) as redis,
        OpenAI(base_url=options.model, api_key="any", max_retries=0) as client,
    ):
        while True:
            found: Any = jobs.blpop([options.jobs], timeout=1)
            if found is None:
                continue
            job = json.loads(found[1])
            if job["way"] == "openai":
                relay_all_by_openai(job, client, redis)
            else:
                asyncio.run(relay_all_raw(job, options.model, options.url))


if __name__ == "__main__":
    main()
