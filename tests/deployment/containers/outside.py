"""Clients outside of Docker's networks, which reach published ports alone."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.deployment.containers.deployment import Deployment
from tests.deployment.containers.shop import TEAM

FETCH = """
import json, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": sys.argv[2]} if sys.argv[2] else {})
try:
    with urllib.request.urlopen(request, timeout=10) as response:
        found = response.status, response.read().decode()
except urllib.error.HTTPError as error:
    found = error.code, error.read().decode()
print(json.dumps(found))
"""
"""A program that prints the status and the text of a response."""


def fetch(deployment: Deployment, port: int, path: str, authorization: str = "") -> tuple[int, str]:
    """Return the status and the text of what a published port answers."""
    words = (sys.executable, "-c", FETCH, f"http://127.0.0.1:{port}{path}", authorization)
    status, text = json.loads(deployment.room.from_outside(*words))
    return status, text


class Caller:
    """A caller of the gateway at work. See caller.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self._lines = process.stdout
        first = self._lines.readline()
        assert first == "submitted\n", first + self._lines.read()

    def finish(self) -> dict[str, Any]:
        """Return the result of the task as the caller prints it, once it has seen all of it."""
        *_, last = self._lines.read().splitlines()
        assert self.process.wait(300) == 0, last
        return dict(json.loads(last))


@contextmanager
def call(deployment: Deployment, address: str = "http://127.0.0.1:8080", certificate: str = "") -> Iterator[Caller]:
    """Yield a caller with a new key, whose task is submitted. It trusts this certificate alone, if there is one."""
    operator = {
        "AWS_ACCESS_KEY_ID": deployment.values["S3_ACCESS_KEY_OPERATOR"],
        "AWS_SECRET_ACCESS_KEY": deployment.values["S3_SECRET_KEY_OPERATOR"],
    }
    key = deployment.run_in("gateway", "roboco", "keys", "create", "caller", changes=operator).split()[-1]
    words = (sys.executable, "-m", "tests.deployment.containers.caller", address, key, TEAM.name)
    with deployment.room.popen_outside("env", f"SSL_CERT_FILE={certificate}", *words) as process:
        try:
            yield Caller(process)
        finally:
            process.kill()
