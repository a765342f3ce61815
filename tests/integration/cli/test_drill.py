"""`roboco drill` on real processes: what it finds, what it does not claim, and that nothing is left."""

import json
import signal
import textwrap
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

REPEATING = """
from roboco.engine.run import claimed_call, tool_call

assert claimed_call.is_irreversible is tool_call.is_irreversible
claimed_call.is_irreversible = tool_call.is_irreversible = lambda spec: False  # as if a worker stored no intent
"""
FORGETFUL = TEAM.replace('"You check."', '"You check.", context: {steps: 1}')


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


def test_a_drill_strikes_and_finds_all_promises_kept(tmp_path: Path, model: ModelServer) -> None:
    shop = Shop(tmp_path, SHOP, model.base_url)
    page = tmp_path / "report.html"
    only = [f"--only={name}" for name in ("agents-kill-commit", "tools-kill-running", "redis-emptied", "user")]
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


@pytest.mark.slow
def test_a_doubled_execution_breaks_a_promise(tmp_path: Path, model: ModelServer) -> None:
    found = Shop(tmp_path, SHOP + DOUBLING, model.base_url).result("--only=model-429", code=1)
    assert outcomes(found) == {"baseline": "broken", "model-429": "broken"}
    [wrong] = found["faults"][1]["broken"]
    assert wrong.startswith("P4: tool 'pay': call drill-model-429/")
    assert wrong.endswith("ran 2 times")


@pytest.mark.nightly
def test_a_retry_that_runs_an_irreversible_tool_again_breaks_a_promise(tmp_path: Path, model: ModelServer) -> None:
    shop = Shop(tmp_path, SHOP + REPEATING, model.base_url)
    found = shop.result("--only=tools-kill-running", code=1)
    assert outcomes(found) == {"baseline": "held", "tools-kill-running": "broken"}
    [wrong] = found["faults"][1]["broken"]
    assert wrong.startswith("P4: tool 'pay': call drill-tools-kill-running/")
    assert wrong.endswith("ran 2 times")
    assert found["faults"][1]["executions"] == {"pay": 2}
    assert found["faults"][1]["irreversible_calls"] == {"pay": 1}


@pytest.mark.nightly
def test_a_prompt_without_the_message_of_an_interruption_is_a_weakness(tmp_path: Path, model: ModelServer) -> None:
    shop = Shop(tmp_path, SHOP, model.base_url)
    (tmp_path / "team.yaml").write_text(FORGETFUL)
    found = shop.result("--only=user-interrupts", code=0)
    assert outcomes(found)["user-interrupts"] == "held"
    lost = [one for one in found["weaknesses"] if one["code"] == "lost_message"]
    assert [one["place"] for one in lost] == ["agents checker"]


@pytest.mark.nightly
def test_a_fault_whose_moment_does_not_arrive_is_not_hit(tmp_path: Path, model: ModelServer) -> None:
    """The real model answers in one piece and calls no tool: a turn has no middle, and tools have no worker to kill."""
    model.script(lambda request: Reply(text="Done.", chunks=1))
    shop = Shop(tmp_path, SHOP, model.base_url)
    only = [f"--only={name}" for name in ("agents-kill-mid-turn", "tools-kill-outcome", "tool-dies", "model-silent")]
    found = shop.result("--model=real", *only, code=1)
    assert outcomes(found) == {
        "baseline": "held",
        "agents-kill-mid-turn": "not hit",
        "tools-kill-outcome": "does not apply",
        "tool-dies": "does not apply",
        "model-silent": "does not apply",
    }
    assert all(record.request.headers["authorization"] == "Bearer test-key" for record in model.requests)
    assert len(model.requests) == 2 * 2


@pytest.mark.nightly
def test_a_real_tool_runs_if_the_user_asks_for_it(tmp_path: Path, model: ModelServer) -> None:
    found = Shop(tmp_path, SHOP, model.base_url).result("--real-tools=look", "--only=model-500", code=0)
    assert found["stand_ins"] == ["pay"]
    assert (tmp_path / "looked").exists()
    assert not (tmp_path / "paid").exists()


@pytest.mark.nightly
def test_a_real_model_is_cut_off_and_answers_again(tmp_path: Path, model: ModelServer) -> None:
    def answer(request: Request) -> Reply:
        return Reply(text="This is a real model.", interval=0.02)

    model.script(answer)
    found = Shop(tmp_path, SHOP, model.base_url).result("--model=real", "--only=model-cut-off", code=0)
    assert outcomes(found) == {"baseline": "held", "model-cut-off": "held"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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


@pytest.mark.nightly
def test_a_team_that_fails_without_a_fault_ends_the_drill(tmp_path: Path, model: ModelServer) -> None:
    shop = Shop(tmp_path, SHOP, model.base_url)
    (tmp_path / "team.yaml").write_text(textwrap.dedent(TEAM).replace("max_tokens: 100000", "max_steps: 2"))
    found = shop.result("--only=user-stops", code=1)
    assert "the task is failed even without a fault" in found["error"]
    assert outcomes(found) == {"baseline": "held"}
