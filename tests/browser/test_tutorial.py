"""The tutorial: its commands are run as they are printed, in their order, by a shell, and its page in Chromium.

Those that need Docker are run by tests/deployment/containers/test_tutorial.py.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Browser, expect

from roboco.local.process import Server, free_port, start_server
from tests.integration.cli.process import environment
from tests.support.desk import LETTER, answer
from tests.support.documents import GUIDES, example, examples
from tests.support.servers.model_server import ModelServer
from tests.support.stack import until

pytestmark = [pytest.mark.slow, pytest.mark.workers]


class Terminals:
    """Terminals in the folder of the tutorial."""

    def __init__(self, folder: Path, model_url: str) -> None:
        for one in examples("file"):
            if one.page == GUIDES / "tutorial.md":
                (folder / one.name).write_text(one.text)
        self.folder = folder
        self.agents = "4711"
        """The process that the tutorial kills."""
        self.site = free_port()
        self._opened = ExitStack()
        self.environment = environment(folder, model_url)
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{self.environment['PATH']}"

    def command(self, step: str) -> list[str]:
        """Return the shell with the commands of a step. Port 8000 may be in use on this machine.

        A later step of a terminal has the variables that an earlier one has read there.
        """
        read = ". .roboco/dev/env\n" if (self.folder / ".roboco/dev/env").exists() else ""
        text = example("step", step).replace("8000", str(self.site)).replace("4711", self.agents)
        return ["bash", "-euo", "pipefail", "-c", read + text]

    def run(self, step: str) -> str:
        """Return the output of a step."""
        done = subprocess.run(
            self.command(step),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, f"{step}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, step: str, sign: str) -> Server:
        """Start a step that runs on, and wait for a text of its output."""
        log = self.folder / f"{step}.log"
        server = start_server(step, self.command(step), env=self.environment, log=log, cwd=self.folder)
        self._opened.callback(server.stop)
        until(lambda: sign in self.log(step), 180, lambda: f"{step} prints {sign!r}: {self.log(step)[-3000:]}")
        return server

    def log(self, step: str) -> str:
        """Return the output of a step that runs on."""
        return (self.folder / f"{step}.log").read_text()

    def close(self) -> None:
        """End all steps, the last one first: Ctrl-C ends `roboco dev` with all that it has started."""
        self._opened.close()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    with ModelServer() as model:
        model.script(answer)
        opened = Terminals(tmp_path, model.base_url)
        try:
            yield opened
        finally:
            opened.close()


def test_every_command_of_the_tutorial_works(terminals: Terminals, browser: Browser) -> None:
    terminals.run("allow")
    dev = terminals.start("dev", "gateway is ready")
    until(lambda: "agents is ready, process" in terminals.log("dev"), 120, "the agents worker is ready")
    terminals.start("worker", " ready.")
    assert "support.yaml" in terminals.run("ask")
    watch = terminals.start("watch", "approval")
    assert "refund" in terminals.run("approve")
    assert watch.process.wait(120) == 0
    assert "".join(LETTER) in " ".join(terminals.log("watch").split())
    [line] = [one for one in terminals.run("paid").splitlines() if "order 17: 24.9 euros" in one]
    terminals.start("site", "Serving HTTP")
    check_page(terminals, browser)
    terminals.agents = re.findall(r"agents is ready, process (\d+)", terminals.log("dev"))[-1]
    assert "".join(LETTER) in " ".join(terminals.run("kill").split())
    until(lambda: "agents ended with code -9" in terminals.log("dev"), 60, "the worker was killed")
    assert terminals.run("paid").count(line) == 1
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(120) == 0


def check_page(terminals: Terminals, browser: Browser) -> None:
    """Write to the desk on the page of the tutorial. Redis is emptied in the middle of the letter."""
    found = re.search(r"web view +(http://127\.0\.0\.1:\d+)/", terminals.log("dev"))
    assert found is not None
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{terminals.site}/support.html#{found[1]}")
    page.fill("input", "Where is order 17? Slowly.")
    page.click("button")
    expect(page.locator("#letter")).to_contain_text(LETTER[0], timeout=60_000)
    address = re.search(r"ROBOCO_REDIS_URL=(\S+)", terminals.log("dev"))
    assert address is not None
    with redis.Redis.from_url(address[1]) as connection:
        connection.flushall()
    expect(page.locator("#state")).to_have_text("completed", timeout=60_000)
    expect(page.locator("#letter")).to_have_text("".join(LETTER))
    page.close()
