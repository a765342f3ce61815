"""Bulk controls on the command line: conditions, confirmation, totals, and how an aborted run is resumed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from roboco.cli.bulk import bulk_option
from roboco.cli.commands import open_task
from roboco.cli.main import commands
from roboco.cli.terminal.signals import Interrupted
from roboco.client.operator import bulk as bulk_module
from roboco.ports.task_index import Rebuild
from tests.support.gateway_rest import RestWorld, rest_world
from tests.support.memory_ports.model import says


@pytest.fixture
def rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestWorld]:
    """Yield a deployment with three tasks of tenant acme, which the commands reach."""
    with rest_world(tmp_path) as started:
        for module in (bulk_option, open_task):
            monkeypatch.setattr(module, "Orchestrator", lambda settings: started.orchestrator)
        monkeypatch.setattr(started.orchestrator, "close", lambda: None)
        for name in "abc":
            body = {"team": "desk", "prompt": "work", "task_id": f"acme:{name}"}
            assert started.post("/v1/tasks", body).status_code == 201
        started.world.clock.move(1)
        with started.world.server as held:
            held.scans[Rebuild] = Rebuild("r", "i", all_listed=True)
        yield started


def call(*arguments: str, text: str | None = None) -> Result:
    """Run a command. Its input is no terminal, as that of a script."""
    return CliRunner().invoke(commands, arguments, input=text, standalone_mode=False)


def sent(rest: RestWorld) -> int:
    """Return the number of items of bulk controls."""
    return sum("/b_" in path for path in rest.world.files.held)


def test_a_command_line_that_is_incomplete_or_wrong_sends_nothing(rest: RestWorld) -> None:
    wrong: list[tuple[list[str], str]] = [
        (["stop"], "name one task, or conditions"),
        (["pause", "acme:a", "--tenant", "acme"], "name one task, or conditions"),
        (["stop", "--tenant", "acme"], "use --yes in scripts"),
        (["stop", "--tenant", "acme", "--older", "yesterday", "--yes"], "cannot be read"),
        (["limits", "--tenant", "acme", "--tool", "ship", "--max-steps", "3", "--yes"], "a tool has no such limit"),
        (["stop", "--no-what-if", "--yes"], "name one task, or conditions"),
        (["send", "hello", "--tenant", "acme", "--yes"], "--message TEXT is a message for many tasks"),
        (["send", "acme:a", "hello", "--message", "hi"], "give one message"),
        (["approve", "acme:a"], "no call of this task waits for `roboco approve`; `roboco why acme:a` shows its state"),
        (["approve", "acme:a", "tc_1", "--tool", "ship"], "--tool: it chooses calls of many tasks"),
        (["approve", "--tenant", "acme", "--args", "{}", "--yes"], "--args: name one task and its call"),
        (["approve", "--tenant", "acme", "--tool", "", "--yes"], "tool: String should have at least 1 character"),
        (["stop", "--tenant", "acme", "--text", "", "--yes"], "it is empty"),
        (["erase", "--tenant", "acme", "--text", "", "--yes"], "it is empty"),
        (["fork", "--tenant", "acme", "--seq", "1", "--yes"], "--seq: name one task"),
        (["fork", "--team", "lab", "--yes"], "name one task, or conditions"),
        (["stop", "acme:a", "--no-what-if"], "name one task, or conditions"),
    ]
    errors = {" ".join(arguments): call(*arguments).exception for arguments, _ in wrong}
    answers = [str(getattr(error, "message", "") or error) for error in errors.values()]
    assert [
        (line, said) for line, said, (_, expected) in zip(errors, answers, wrong, strict=True) if expected not in said
    ] == []
    assert sent(rest) == 0


@pytest.mark.parametrize(("answer", "count"), [("y\n", 3), ("n\n", 0)])
def test_a_person_confirms_the_number_of_tasks(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    monkeypatch.setattr(bulk_option, "_is_terminal", lambda: True)
    result = call("pause", "--all", text=answer)
    assert "pause 3 tasks? [y/N]" in result.output
    assert sent(rest) == count


def test_an_aborted_run_says_how_it_is_resumed(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_option, "PAGE_SIZE", 2)
    read = bulk_module.Bulk.pages

    def abort(*arguments: Any) -> Any:
        yield next(read(*arguments))
        raise Interrupted(2)

    with monkeypatch.context() as patched:
        patched.setattr(bulk_module.Bulk, "pages", abort)
        result = call("stop", "--tenant", "acme", "--yes")
    assert result.exception is not None
    assert "aborted after 2 tasks; resume with the same options, --bulk-id " in result.stderr
    bulk_id, until = result.stderr.rpartition("--bulk-id ")[2].split(" and --until ")
    assert sent(rest) == 2
    resumed = call("stop", "--tenant", "acme", "--yes", "--bulk-id", bulk_id, "--until", until.strip())
    assert resumed.stdout == "stop: 1 accepted, 2 repeated, 0 ended, 0 failed\n"
    assert sent(rest) == 3


def test_tasks_that_the_rebuilt_index_may_lack_are_reported(rest: RestWorld) -> None:
    with rest.world.server as held:
        del held.scans[Rebuild]
    result = call("stop", "--tenant", "acme", "--yes")
    assert result.return_value == 1
    assert "tasks may be left" in result.stderr


def test_limits_reach_all_tasks_of_the_conditions(rest: RestWorld) -> None:
    result = call("limits", "--team", "desk", "--agent", "writer", "--max-steps", "7", "--yes", "--rate", "1000")
    assert result.stdout == "limits: 3 accepted, 0 repeated, 0 ended, 0 failed\n"
    assert sent(rest) == 3


def test_an_approval_prints_its_calls_by_tool_before_it_asks(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.world.settle("acme:a")
    rest.run("acme:ships", says("", ("ship", {}), ("ship", {})))
    monkeypatch.setattr(bulk_option, "_is_terminal", lambda: True)
    refused = call("approve", "--tenant", "acme", text="n\n")
    assert "approve: 2 calls of 1 task\n  ship (pure): 2 calls\napprove 2 calls of 1 task? [y/N]" in refused.output
    assert len(rest.orchestrator.task("acme:ships").pending_actions().unapproved()) == 2
    done = call("approve", "--tenant", "acme", "--tool", "ship", "--yes", "--json")
    assert json.loads(done.stdout.splitlines()[-1]) | {"bulk_id": ""} == {
        "bulk_id": "",
        "accepted": 1,
        "repeated": 0,
        "ended": 0,
        "failed": 0,
        "calls": 2,
        "complete": True,
    }
    assert rest.orchestrator.task("acme:ships").pending_actions().unapproved() == []


def test_forks_are_printed_with_their_tasks_and_messages_reach_waiting_tasks(rest: RestWorld) -> None:
    for name in "abc":
        rest.world.settle(f"acme:{name}")
    result = call("fork", "--of-team", "desk", "--message", "again", "--yes")
    pairs = [line.split() for line in result.stdout.splitlines()[:-1]]
    assert sorted(source for source, _ in pairs) == ["acme:a", "acme:b", "acme:c"]
    assert result.stdout.splitlines()[-1] == "fork: 3 accepted, 0 repeated, 0 ended, 0 failed"
    assert all(rest.orchestrator.task(new).summary().team == "desk" for _, new in pairs)
    assert call("send", "--message", "hello", "--tenant", "acme", "--yes").stdout.startswith("send: 0 accepted")


def test_the_only_waiting_call_needs_no_id(rest: RestWorld) -> None:
    rest.world.settle("acme:a")
    rest.run("acme:ships", says("", ("ship", {}), ("ship", {})))
    pending = rest.orchestrator.task("acme:ships").pending_actions()
    first, second = pending.unapproved()
    refused = call("approve", "acme:ships")
    assert getattr(refused.exception, "message", "").splitlines() == [
        "2 calls wait, name one of them:",
        *(f"  roboco {verb} acme:ships {one.id}  # ship" for one in (first, second) for verb in ("approve", "deny")),
    ]
    assert call("deny", "acme:ships", first.id).output == f"{first.id} is denied: ship() of writer, task acme:ships\n"
    assert call("approve", "acme:ships").output == f"{second.id} is approved: ship() of writer, task acme:ships\n"
    assert pending.unapproved() == []
