"""The example of server-sent events in a real browser, whose server is killed, and ended, in the middle of a step."""

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from roboco import parse_team
from roboco.adapters.local.process import Server, free_port, start_server, wait_ready
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

TEAM = parse_team(
    {"name": "two", "agents": [{"name": name, "prompt": f"{name} speaks"} for name in ("first", "second")]}
)
WORDS = [f"{word} {number},\n  <b>" for number in range(60) for word in ("Woge", "Gischt", "Bö")]


class Web:
    """The example with its page, at one port; started anew after each end."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.port = free_port()
        self.server = self.start()

    def start(self) -> Server:
        command = [sys.executable, "-m", "uvicorn", "tests.support.servers.sse_page:app", "--port", str(self.port)]
        command += ["--timeout-graceful-shutdown", "1"]
        log = self._stack.folder / "uvicorn.log"
        self.server = start_server("uvicorn", command, env=self._stack.environment, log=log, cwd=ROOT)
        wait_ready(self.server, self._answers, 60)
        return self.server

    def restart(self, sign: signal.Signals) -> None:
        """End it by this signal, within a few seconds, and start another one at its port."""
        os.kill(self.server.pid, sign)
        self.server.process.wait(10)
        self.start()

    def told(self, what: str, seconds: float = 60) -> dict[str, str]:
        """What the page showed at this moment: the text of each step."""
        file = self._stack.folder / f"{what}.json"
        until(file.exists, seconds, f"the page tells {what}")
        texts: dict[str, str] = json.loads(file.read_text())
        return texts

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/openapi.json", timeout=5):
                return True
        except URLError:
            return False


@contextmanager
def browser(stack: Stack, url: str) -> Iterator[None]:
    """A Chromium without a window, on this page."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here: its EventSource is what this test is about")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command = [program, *flags, f"--user-data-dir={stack.folder / 'browser'}", url]
    started = start_server("chromium", command, log=stack.folder / "chromium.log")
    try:
        yield
    finally:
        started.stop(10)


def test_a_page_shows_exactly_what_was_said(folder_stack: Stack) -> None:
    second = threading.Event()

    def speak(request: Request) -> Reply:
        return Reply(chunks=WORDS, interval=0.01, held_until=second if request.system.startswith("second") else None)

    folder_stack.model.script(speak)
    web = Web(folder_stack)
    try:
        task = folder_stack.orchestrator.run(TEAM, "Go.")
        with browser(folder_stack, f"http://127.0.0.1:{web.port}/pages/{task.task_id}"):
            web.told("begun-1")
            web.restart(signal.SIGKILL)
            (held,) = web.told("opened-2").values()
            assert "".join(WORDS).startswith(held)
            second.set()
            web.told("begun-2")
            web.restart(signal.SIGTERM)
            shown = web.told("end")
        said = {step.step_id: step.text for step in task.history() if step.by_agent}
        assert shown == said
        assert list(said.values()) == ["".join(WORDS)] * 2
    finally:
        second.set()
        web.server.stop()
        folder_stack.model.script(answer)
