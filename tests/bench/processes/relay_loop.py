"""A process that relays chunks from a model's stream to PUBLISH without Roboco.

    python -m tests.bench.processes.relay_loop --url redis://... --model http://127.0.0.1:8080/v1 --jobs LIST

It takes one job after another from the list. A job is a JSON object with the fields `prompt`, `streams`, `channel` and
`size`, the size of a message. A thread for each stream reads it with the openai package, and publishes each chunk on
CHANNEL:0, CHANNEL:1, ... The process ends with SIGTERM.
"""

import argparse
import json
import threading
from typing import Any

from openai import OpenAI
from redis import Redis

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
            relay_all_by_openai(job, client, redis)


if __name__ == "__main__":
    main()
