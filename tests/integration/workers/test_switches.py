"""The commands `workers`, `drain` and `switch` of an operator, with real workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco import Task, Team, parse_team
from tests.integration.cli.shell import Shell
from tests.support.servers.model_server import Reply
from tests.support.stack import LONG_LEASE, Stack, until

pytestmark = pytest.mark.workers

SPEAKER = parse_team({"name": "speaker", "agents": [{"name": "speaker", "prompt": "Speak."}]})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack"), ["coordinator", "agents"], lease_seconds=LONG_LEASE) as running:
        yield running


@pytest.fixture
def shell(stack: Stack, tmp_path: Path) -> Shell:
    return Shell(tmp_path, stack.environment)


def waiting_task(stack: Stack, team: Team, cause: str) -> Task:
    """Return a task that waits for this cause. Workers know of a switch half a second later at the latest."""
    task = stack.orchestrator.run(team, "Speak.")
    until(lambda: task.summary().reason == cause or task.summary().status.ended, 60, "the reason is shown")
    return waiting_task(stack, team, cause) if task.summary().status.ended else task


def test_a_task_waits_while_its_team_is_switched_off_and_says_why(stack: Stack, shell: Shell) -> None:
    stack.model.script(lambda request: Reply(text="spoken"))
    shell.call("switch", "off", "team:speaker", "--reason", "it insults people")
    cause = "team:speaker is switched off: it insults people"
    task = waiting_task(stack, SPEAKER, cause)
    assert cause in shell.call("why", task.task_id)
    [row] = [one for one in shell.call_json("tasks", "--json")["tasks"] if one["task_id"] == task.task_id]
    assert row["reason"] == cause
    assert "reason" in shell.call("tasks", "--status", "open").splitlines()[0]
    [off] = shell.call_json("switch", "list", "--json")
    assert off["target"] == "team:speaker"
    assert off["by"].startswith("cli:")
    asked = len(stack.model.requests)
    assert "was off: it insults people" in shell.call("switch", "on", "team:speaker")
    assert task.result(120).status == "completed"
    assert len(stack.model.requests) == asked + 1
    assert task.history()[1].metadata["attempt"] == 1


def test_a_model_is_switched_off_and_on(stack: Stack, shell: Shell) -> None:
    stack.model.script(lambda request: Reply(text="spoken"))
    team = parse_team(
        {
            "name": "writer",
            "models": {"large": {"model": "gpt-4o", "default": True}},
            "agents": [{"name": "writer", "prompt": "Write."}],
        }
    )
    shell.call("switch", "off", "model:gpt-4o", "--reason", "its provider has an incident")
    cause = "model:gpt-4o is switched off: its provider has an incident"
    task = waiting_task(stack, team, cause)
    assert task.task_id in shell.call("tasks", "--status", "open")
    assert cause in shell.call("why", task.task_id)
    assert "was off: its provider has an incident" in shell.call("switch", "on", "model:gpt-4o")
    assert task.result(120).status == "completed"


def test_an_operator_sees_what_a_worker_runs_and_drains_it(stack: Stack, shell: Shell) -> None:
    stack.model.script(lambda request: Reply(text="word " * 200, interval=5))
    task = stack.orchestrator.run(SPEAKER, "Speak.")

    def holder() -> str:
        listed = shell.call_json("workers", "--json")["workers"]
        return next((one["name"] for one in listed if any(w["task_id"] == task.task_id for w in one["held"])), "")

    until(holder, 60, "a worker registers the turn")
    name = holder()
    stack.model.script(lambda request: Reply(text="spoken"))
    stack.start("agents-2")
    stack.wait_ready("agents-2")
    shown = shell.call("drain", name, "--timeout", "2")
    assert "draining" in shown
    assert f"{name} is drained and has ended" in shown
    assert stack.workers["agents"].process.wait(60) == 0
    assert task.result(60).status == "completed"
    assert name not in shell.call("workers")
    shell.run("drain", name, "--json", code=2)
