"""`roboco serve` as a process: its first lines, its exit with open streams, and limits of a request's head."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roboco.local.valkey import ValkeyServer
from tests.support import forked
from tests.support.stack import BUSY_FACTOR, ROOT, until

pytestmark = [pytest.mark.redis]


class Served:
    """A process of `roboco serve`."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process = process
        self.log = log
        self.lines: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("try: "):
                break
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.lines[0]) if self.lines else None
        assert found, log.read_text()
        self.port = int(found[1])

    def send(self, text: str) -> socket.socket:
        """Send the bytes of a request, and return the connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), 30 * BUSY_FACTOR)
        connection.sendall(text.encode())
        return connection

    def get(self, path: str) -> str:
        """Return the whole response to GET."""
        with self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as connection:
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


@contextmanager
def served(folder: Path, valkey: ValkeyServer, *arguments: str, **environment: str) -> Iterator[Served]:
    """Yield a running gateway, whose application has a stream that never ends by itself."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ROBOCO_", "COV"))}
    own = {
        "ROBOCO_REDIS_URL": valkey.url,
        "ROBOCO_PREFIX": folder.name.replace("_", "-")[:40],
        "ROBOCO_WORKSPACE": f"file://{folder}/workspace",
        "PYTHONPATH": str(ROOT),
    }
    log = folder / "serve.log"
    command = [sys.executable, "-W", "ignore", "-m", "roboco.cli.main", "serve", "--port", "0", *arguments]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, env=inherited | own | environment, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield Served(process, log)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def refusal(folder: Path, *arguments: str, **environment: str) -> str:
    """Return the errors of a command that is refused."""
    log = folder / "refused.log"
    log.unlink(missing_ok=True)
    command = ["serve", *arguments]
    started = forked.start("serve", command, program="roboco", env=os.environ | environment, log=log, cwd=ROOT)
    assert started.process.wait(180) == 2, log.read_text()
    return log.read_text()


def test_serve_announces_its_address_which_no_other_takes_and_ends_quietly(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    with served(tmp_path, valkey) as gateway:
        assert gateway.lines[1] == "authentication is on: `roboco keys create NAME` makes a key"
        assert gateway.lines[2] == f"try: curl -H 'Authorization: Bearer KEY' http://127.0.0.1:{gateway.port}/v1/me"
        assert "200 OK" in gateway.get("/healthz")
        assert "401 Unauthorized" in gateway.get("/v1/me")
        assert "choose another one" in refusal(tmp_path, "--port", str(gateway.port))
        gateway.process.send_signal(signal.SIGINT)
        assert gateway.process.wait(60) == 130
        assert "Traceback" not in gateway.log.read_text()
        assert '"path": "/v1/me"' in gateway.log.read_text()


def test_without_authentication_a_public_address_is_refused(tmp_path: Path, valkey: ValkeyServer) -> None:
    off = {"ROBOCO_GATEWAY_AUTHENTICATION": "false"}
    with served(tmp_path, valkey, **off) as gateway:
        assert gateway.lines[1].startswith("authentication is off")
        assert '"by":"local"' in gateway.get("/v1/me")
    assert "listens on this machine alone" in refusal(tmp_path, "--host", "0.0.0.0", "--port", "0", **off)


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    wrong = {"ROBOCO_GATEWAY_MAX_UPLOD": "1", "ROBOCO_GATEWAY_STREAM_SECONDS": "soon"}
    errors = refusal(tmp_path, "--port", "0", **wrong)
    assert "ROBOCO_GATEWAY_MAX_UPLOD is not a setting; similar: ROBOCO_GATEWAY_MAX_UPLOAD" in errors
    assert "ROBOCO_GATEWAY_STREAM_SECONDS='soon'" in errors


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_ends_the_process_although_a_request_hangs(tmp_path: Path, valkey: ValkeyServer, workers: int) -> None:
    with served(tmp_path, valkey, "--workers", str(workers)) as gateway:
        until(lambda: "200 OK" in gateway.get("/readyz"), 30, "the gateway is ready")
        head = "POST /v1/sign-in HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
        hanging = [gateway.send(head + "{") for _ in range(6)]
        for connection in hanging:  # the application waits for the rest of the body
            assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        gateway.process.send_signal(signal.SIGTERM)
        code = gateway.process.wait(180)  # the request would hang without an end
        assert code == (143 if workers == 1 else 0)
        for connection in hanging:
            with connection:
                assert connection.recv(1000).startswith(b"HTTP/1.1 503")
        assert "Traceback" not in gateway.log.read_text()


def test_an_endless_head_is_refused(tmp_path: Path, valkey: ValkeyServer) -> None:
    with served(tmp_path, valkey) as gateway:
        for head in ("GET /" + "a" * 200_000, "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 200_000):
            with gateway.send("") as connection:
                try:
                    connection.sendall(head.encode())
                    answer = connection.recv(1000)
                except ConnectionError:
                    answer = b""
                assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
        many = "".join(f"X-{number}: {'a' * 100}\r\n" for number in range(200))
        with gateway.send(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}Connection: close\r\n\r\n") as connection:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
