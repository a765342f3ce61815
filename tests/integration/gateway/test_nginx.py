"""Streams through nginx with its default settings: the first text arrives while the model still writes."""

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from roboco.local.process import LOOPBACK, free_port, start_server, wait_ready
from tests.integration.gateway.test_streams import assert_same, path_of, run, slow_answer, start
from tests.support.gateway_process import GatewayProcess, StreamClient
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = [pytest.mark.workers, pytest.mark.slow]

CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  gzip on;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; }} }}
}}
"""


@contextmanager
def nginx(folder: Path, url: str) -> Iterator[str]:
    """Run nginx before a server, and yield its address. Skip the test if it is not installed; in CI, fail it."""
    program = shutil.which("nginx")
    if program is None:
        assert not os.environ.get("CI"), "nginx is not installed; `.ci/run` installs it"
        pytest.skip("nginx is not installed")
    port = free_port()
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=port, url=url))
    command = [program, "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    server = start_server("nginx", command, log=folder / "nginx.log")
    try:
        wait_ready(server, lambda: _answers(port), 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex((LOOPBACK, port)) == 0


def slow_beginning(request: Request) -> Reply:
    """Return the reply of `slow_answer`, in about six seconds if it is an agent's first one."""
    reply = slow_answer(request)
    return reply if request.count("assistant") else replace(reply, interval=0.1)


def test_text_passes_nginx_before_the_model_has_ended(shared_stack: Stack, tmp_path: Path) -> None:
    with GatewayProcess(shared_stack) as gateway, nginx(tmp_path, gateway.url) as url:
        shared_stack.model.script(slow_beginning)

        async def main() -> None:
            task = await start(shared_stack)
            client = StreamClient([url], path_of(task))
            following = asyncio.create_task(client.follow())
            async with asyncio.timeout(120):
                while not any(frame.kind == "text_part_delta" for frame in client.shown):
                    await asyncio.sleep(0.01)
            assert not any(frame.kind == "step_final" and frame.data["step"]["seq"] > 0 for frame in client.shown)
            await following
            assert client.connections == 1
            await assert_same([client], task)

        run(main())
