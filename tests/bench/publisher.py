"""Plain PUBLISH, in a process of its own: what the relay of a token is measured against.

`python -m tests.bench.publisher --url redis://... --channel NAME --streams 20 --chunks 40 --interval 0.05 --size 330`
publishes on NAME:0, NAME:1, ... from one thread each, as an agents worker does, and ends.
"""

import argparse
import json
import threading
import time

from redis import Redis

from roboco.adapters.redis.client import connect


def publish(client: Redis, channel: str, number: int, options: argparse.Namespace) -> None:
    """Publish the messages of one stream, each with the time at which it was sent, padded to the size."""
    due = time.monotonic() + options.interval * number / options.streams
    for _ in range(options.chunks):
        time.sleep(max(0.0, due - time.monotonic()))
        due += options.interval
        record = {"text": str(time.time_ns()), "rest": ""}
        record["rest"] = "x" * (options.size - len(json.dumps(record)))
        client.publish(channel, json.dumps(record))


def main() -> None:
    """Publish all streams at once."""
    parser = argparse.ArgumentParser(description="Plain PUBLISH, for the benches.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--channel", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--chunks", type=int, required=True)
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--size", type=int, required=True, help="bytes of a message")
    options = parser.parse_args()
    with connect(options.url) as client:
        client.ping()
        threads = [
            threading.Thread(target=publish, args=(client, f"{options.channel}:{number}", number, options))
            for number in range(options.streams)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
