"""`roboco drill` on real processes: what it finds, what it does not claim, and that nothing is left."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.local.valkey import find_server
from tests.integration.cli.process import CommandProcess, assert_nothing_left, environment
from tests.integration.local.test_local_servers import find_or_skip
from tests.support.servers.model_server import ModelServer, Reply, Request

pytestmark = [pytest.mark.workers, pytest.mark.redis]

TEAM = """
name: shop
agents:
  - {name: clerk, prompt: "You are a clerk.", tools: [pay, look]}
  - {name: checker, prompt: "You check."}
tools:
  - {name: pay, function: "drilled_shop:pay", timeout: 5}
  - {name: look, function: "drilled_shop:look", effect: pure, timeout: 5}
limits: {max_tokens: 100000}
"""
SHOP = """
from pathlib import Path

from roboco import tool


@tool
def pay(order: str) -> str:
    \"""Pay an order.\"""
    Path("paid").touch()
    return "paid"


@tool
def look(order: str) -> str:
    \"""Look up an order.\"""
    Path("looked").touch()
    return "open"
"""
DOUBLING = """
from roboco.lab.drill.executions import Executions

note = Executions.note


def note_twice(self, execution):
    note(self, execution)
    note(self, execution)


Executions.note = note_twice
"""


class Shop:
    """A folder with a team and its tools, in which commands run."""

    def __init__(self, folder: Path, tools: str, model_url: str) -> None:
        self.folder = folder
        (folder / "team.yaml").write_text(TEAM)
        (folder / "drilled_shop.py").write_text(tools)
        self.env = environment(folder, model_url, ROBOCO_TOOL_MODULES="drilled_shop")

    def drill(self, *arguments: str) -> CommandProcess:
        """Start a drill."""
        return CommandProcess(["drill", "team.yaml", *arguments], self.folder, self.env)

    def result(self, *arguments: str, code: int) -> dict[str, Any]:
        """Run a drill, assert its exit code and that nothing is left, and return its JSON."""
        with self.drill("--json", *arguments) as drill:
            assert drill.wait_for_exit(1200) == code
            found: dict[str, Any] = json.loads(drill.output)
        assert_nothing_left(self.folder)
        return found


@pytest.fixture
def model() -> Iterator[ModelServer]:
    find_or_skip(find_server)
    with ModelServer() as server:
        yield server


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {fault["name"]: fault["outcome"] for fault in found["faults"]}


@pytest.mark.slow
def test_a_drill_strikes_and_finds_all_promises_kept(tmp_path: Path, model: ModelServer) -> None:
    shop = Shop(tmp_path, SHOP, model.base_url)
    page = tmp_path / "report.html"
    only = [
        f"--only={name}"
        for name in ("agents-kill-commit", "tools-kill-running", "redis-emptied", "user-stops", "user-interrupts")
    ]
    found = shop.result(*only, f"--html={page}", code=0)
    assert set(outcomes(found).values()) == {"held"}
    assert all(one["held"] == one["checked"] > 0 for one in found["promises"].values())
    faults = {fault["name"]: fault for fault in found["faults"]}
    assert faults["tools-kill-running"]["executions"] == {"pay": 1}
    assert any("outcome unknown" in effect for effect in faults["tools-kill-running"]["effects"])
    assert faults["user-stops"]["status"] == "cancelled"
    assert [one["code"] for one in found["weaknesses"]] == ["no_verify"]
    assert model.requests == [], "a drill on the scripted model calls no other one"
    assert not (tmp_path / "paid").exists()
    assert not (tmp_path / "looked").exists()
    assert "user-stops" not in page.read_text(), "the page names faults in words"
    assert "the user stops the task" in page.read_text()


@pytest.mark.nightly
def test_a_doubled_execution_breaks_a_promise(tmp_path: Path, model: ModelServer) -> None:
    found = Shop(tmp_path, SHOP + DOUBLING, model.base_url).result("--only=model-429", code=1)
    assert outcomes(found) == {"baseline": "broken", "model-429": "broken"}
    [wrong] = found["faults"][1]["broken"]
    assert wrong.startswith("P4: tool 'pay': call drill-model-429/")
    assert wrong.endswith("ran 2 times")


@pytest.mark.nightly
def test_a_real_model_is_cut_off_and_answers_again(tmp_path: Path, model: ModelServer) -> None:
    def answer(request: Request) -> Reply:
        return Reply(text="This is a real model.", interval=0.02)

    model.script(answer)
    found = Shop(tmp_path, SHOP, model.base_url).result("--model=real", "--only=model-cut-off", code=0)
    assert outcomes(found) == {"baseline": "held", "model-cut-off": "held"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_a_signal_ends_all_processes_and_prints_what_is_known(
    tmp_path: Path, model: ModelServer, number: signal.Signals
) -> None:
    with Shop(tmp_path, SHOP, model.base_url).drill() as drill:
        drill.wait_for_text("no fault")
        drill.send_signal(number)
        assert drill.wait_for_exit() == 128 + number
        assert "interrupted, so this is not all" in drill.output
        assert drill.errors == ""
    assert_nothing_left(tmp_path)
