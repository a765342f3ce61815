"""A process that subscribes to a channel and closes a connection for each message: the baseline of an interrupt.

    python -m tests.bench.processes.connection_closer --url redis://... --channel NAME --model http://127.0.0.1:8080/v1

It holds a request to the model open. For each message on NAME it closes the connection, and then opens the next one. It
ends with SIGTERM.
"""

import argparse
import json
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

from roboco.redis.client import connect_subscriber


def open_silent_request(model: str, name: str) -> HTTPConnection:
    """Send a request with this name, to which the model does not reply, and return the connection."""
    address = urlsplit(model)
    connection = HTTPConnection(str(address.hostname), address.port)
    messages = [{"role": "system", "content": f"silent {name}"}, {"role": "user", "content": "Go."}]
    body = json.dumps({"model": "any", "messages": messages, "stream": True})
    connection.request("POST", f"{address.path}/chat/completions", body)
    connection.getresponse()
    return connection


def main() -> None:
    """Close one connection for each message."""
    parser = argparse.ArgumentParser(description="Close a connection for each message, for the benches.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--channel", required=True, help="also the name of the request")
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    with connect_subscriber(options.url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(options.channel)
        while True:
            with closing(open_silent_request(options.model, options.channel)):
                while pubsub.get_message(timeout=1) is None:
                    pass


if __name__ == "__main__":
    main()
