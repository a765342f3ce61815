"""The gateway's server-sent events in a real browser, while it is killed and terminated."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import redis

from roboco import parse_team
from roboco.local.process import Server, free_port, start_server, wait_ready
from tests.support import forked
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

TEAM = parse_team(
    {"name": "two", "agents": [{"name": name, "prompt": f"{name} speaks"} for name in ("first", "second")]}
)
WORDS = [f"{word} {number},\n  <b>" for number in range(60) for word in ("Woge", "Gischt", "Bö")]


class SsePageServer:
    """The gateway with the page of its guide, under uvicorn. It restarts at the same port."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.port = free_port()
        self.server = self.start()

    def start(self) -> Server:
        arguments = [
            "tests.support.servers.gateway_page:app",
            "--port",
            str(self.port),
            "--timeout-graceful-shutdown",
            "1",
        ]
        log = self._stack.folder / "uvicorn.log"
        self.server = forked.start("web", arguments, program="uvicorn", env=self._stack.environment, log=log, cwd=ROOT)
        wait_ready(self.server, self._responds, 180)
        return self.server

    def restart(self, signal_number: signal.Signals) -> None:
        """End the server by this signal, unless it has ended, and start another one at its port."""
        os.kill(self.server.pid, signal_number)
        self.server.process.wait(60)
        self.start()

    def texts_at(self, moment: str, seconds: float = 60) -> dict[str, str]:
        """Return the text of each step that the page showed at this moment."""
        file = self._stack.folder / f"{moment}.json"
        until(file.exists, seconds, f"the page reports {moment}")
        texts: dict[str, str] = json.loads(file.read_text())
        return texts

    def _responds(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/openapi.json", timeout=60):
                return True
        except URLError:
            return False


def chromium(stack: Stack) -> list[str]:
    """Return the command of a headless Chromium. Skip the test if it is not installed; in CI, fail it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        assert not os.environ.get("CI"), "Chromium is not installed; `.ci/run` installs it"
        pytest.skip("Chromium is not installed, whose EventSource this test needs")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    return [program, *flags, f"--user-data-dir={stack.folder / 'browser'}"]


@contextmanager
def browser(stack: Stack, url: str) -> Iterator[None]:
    """Run a headless Chromium on this page until the block ends."""
    command = [*chromium(stack), url]
    started = start_server("chromium", command, log=stack.folder / "chromium.log")
    try:
        yield
    finally:
        started.stop(10)


def test_the_page_of_the_guide_shows_the_history_after_redis_was_emptied(folder_stack: Stack) -> None:
    """Redis is emptied in both turns. The gateway is killed and terminated, and the model server breaks off a turn."""
    second_may_speak = threading.Event()

    def speak(request: Request) -> Reply:
        reply = Reply(chunks=WORDS, interval=0.03)
        if not request.system.startswith("second"):
            return reply
        return replace(reply, held_until=second_may_speak, break_after=10 if next(turns_of_second) == 1 else None)

    turns_of_second = count()
    folder_stack.model.script(speak)
    web = SsePageServer(folder_stack)
    try:
        task = folder_stack.orchestrator.run(TEAM, "Go.")
        with (
            redis.Redis.from_url(folder_stack.valkey.url) as connection,
            browser(folder_stack, f"http://127.0.0.1:{web.port}/follow.html?task={task.task_id}"),
        ):
            web.texts_at("started-1")
            connection.flushall()
            web.texts_at("reset-1")
            second_may_speak.set()
            web.texts_at("started-2")
            os.kill(web.server.pid, signal.SIGKILL)
            connection.flushall()
            web.restart(signal.SIGKILL)
            web.texts_at("reset-2")
            web.restart(signal.SIGTERM)
            displayed = web.texts_at("end")["pre"]
        assert displayed == "\n".join(step.text for step in task.history() if step.by_agent)
        assert displayed == "\n".join(["".join(WORDS)] * 2)
        assert "event_turn_restart" in [item.type for item in task.stream()]
    finally:
        second_may_speak.set()
        web.server.stop()
        folder_stack.model.script(answer)
