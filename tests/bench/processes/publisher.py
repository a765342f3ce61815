"""A process that publishes messages with plain PUBLISH: the baseline of the relay of a token.

    python -m tests.bench.processes.publisher --url redis://... --channel NAME \\
        --streams 20 --chunks 40 --interval 0.05 --size 330

It publishes on NAME:0, NAME:1, ... in turn, from one thread, and ends.
"""

import argparse
import json
import time

from roboco.redis.client import connect


def main() -> None:
    """Publish the messages of all streams, each with its time of sending, padded to the size."""
    parser = argparse.ArgumentParser(description="Plain PUBLISH, for the benches.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--channel", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--chunks", type=int, required=True)
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--size", type=int, required=True, help="bytes of a message")
    options = parser.parse_args()
    rest = "x" * (options.size - len(json.dumps({"text": str(time.time_ns()), "rest": ""})))
    with connect(options.url) as client:
        client.ping()
        due = time.monotonic()
        for number in range(options.streams * options.chunks):
            time.sleep(max(0.0, due - time.monotonic()))
            due += options.interval / options.streams
            channel = f"{options.channel}:{number % options.streams}"
            client.publish(channel, json.dumps({"text": str(time.time_ns()), "rest": rest}))


if __name__ == "__main__":
    main()
