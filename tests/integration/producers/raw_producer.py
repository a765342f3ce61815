"""A producer and follower of the standard library alone: `python -I -S raw_producer.py PORT < arguments.json`.

It pushes a Celery message of protocol 2 to the queue, follows both logs of the task, and prints each message on a
line. After every third answer it disconnects, and resumes after the last message.
"""

import json
import socket
import sys
import uuid
from typing import Any

QUEUE = "roboco.coordinator"


class Redis:
    """One connection that speaks RESP 2."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._answers = self._socket.makefile("rb")

    def __call__(self, *words: str) -> Any:
        """Send a command, and return the answer."""
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        self._socket.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        return self._answer()

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()

    def _answer(self) -> Any:
        line = self._answers.readline().decode().rstrip("\r\n")
        kind, rest = line[:1], line[1:]
        if kind == "-":
            raise RuntimeError(rest)
        if kind == "$":
            return None if rest == "-1" else self._answers.read(int(rest) + 2)[:-2].decode()
        if kind == "*":
            return None if rest == "-1" else [self._answer() for _ in range(int(rest))]
        return int(rest) if kind == ":" else rest


def message(arguments: dict[str, Any]) -> str:
    """Return the submission as Celery writes it."""
    celery_id = str(uuid.uuid4())
    return json.dumps(
        {
            "headers": {"task": "roboco.submit", "id": celery_id},
            "body": json.dumps([[], arguments, {}]),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "properties": {
                "delivery_tag": celery_id,
                "delivery_info": {"exchange": "", "routing_key": QUEUE},
            },
        }
    )


def main(port: int, arguments: dict[str, Any]) -> None:
    """Submit a task, and follow it to the end."""
    at = {f"roboco:{{{arguments['task_id']}}}:{name}": "0" for name in ("content", "events")}
    redis = Redis(port)
    redis("LPUSH", QUEUE, message(arguments))
    ended, answers = False, 0
    while not ended:
        for log, entries in redis("XREAD", "BLOCK", "5000", "STREAMS", *at, *at.values()) or ():
            for number, (_, text) in entries:
                at[log] = number
                ended = ended or json.loads(text)["type"] == "event_task_end"
                print(text, flush=True)
        answers += 1
        if answers % 3 == 0:
            redis.close()
            redis = Redis(port)
    redis.close()


main(int(sys.argv[1]), json.load(sys.stdin))
