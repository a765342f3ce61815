"""A caller outside of Docker's networks: it submits over HTTP, follows, and resumes a stream that is cut.

`python -m tests.deployment.containers.caller ADDRESS KEY TEAM` prints the task's status and texts, and how often
its stream was resumed. It exits with 1 if the task does not complete, or the stream lacks a step or repeats one.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from roboco.gateway.streams.form import ServerSentEvents
from tests.support.gateway_streams import Frame, frames_of

_END_SECONDS = 240.0


class Caller:
    """A client of the gateway that tries again while it does not answer."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._key = key
        self._deadline = time.monotonic() + _END_SECONDS
        self.resumed = 0

    def open(self, path: str, body: dict[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """Return the response, once there is one."""
        head = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        head |= headers or {}
        data = None if body is None else json.dumps(body).encode()
        while True:
            request = urllib.request.Request(self._address + path, data, head)
            try:
                return urllib.request.urlopen(request, timeout=30)
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    raise
            except OSError:
                pass
            assert time.monotonic() < self._deadline, "the gateway does not answer"
            time.sleep(0.5)

    def frames(self, task_id: str) -> Iterator[Frame]:
        """Yield each frame once, until the task has ended."""
        place = ""
        while True:
            body = b""
            headers = {"Last-Event-ID": place} if place else {}
            try:
                with self.open(f"/v1/tasks/{task_id}/events", headers=headers) as response:
                    if response.status == 204:
                        return
                    while line := response.readline():
                        body += line
            except OSError:
                pass
            for frame in frames_of(body, ServerSentEvents, place):
                place = frame.place
                yield frame
                if frame.kind == "stream_end" and not frame.data["resume"]:
                    return
            self.resumed += 1
            assert time.monotonic() < self._deadline, "the stream does not end"


def main() -> None:
    """Submit, follow, compare."""
    caller = Caller(sys.argv[1], sys.argv[2])
    with caller.open(
        "/v1/tasks", {"team": sys.argv[3], "prompt": "Order."}, {"Idempotency-Key": f"caller-{time.time()}"}
    ) as response:
        task_id = json.load(response)["task_id"]
    print("submitted", flush=True)
    texts: dict[str, str] = {}
    finals = []
    for frame in caller.frames(task_id):
        if frame.kind == "text_part_delta":
            before = "" if frame.data.get("replace") else texts.get(frame.data["step_id"], "")
            texts[frame.data["step_id"]] = before + frame.data["text"]
        elif frame.kind == "event_turn_restart":
            texts.pop(frame.data["step_id"], None)
        elif frame.kind == "step_final":
            finals.append(frame.data["step"]["seq"])
    with caller.open(f"/v1/tasks/{task_id}/result?wait=20") as response:
        result = json.load(response)
    print(
        json.dumps(
            {"status": result["status"], "texts": list(texts.values()), "finals": finals, "resumed": caller.resumed}
        )
    )
    sys.exit(finals != list(range(len(finals))) or result["status"] != "completed")


if __name__ == "__main__":
    main()
