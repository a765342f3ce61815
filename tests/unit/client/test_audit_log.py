"""Each control names its caller in the record of the task and in the audit log, whichever way it came in."""

import errno
import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roboco.broker import names
from roboco.cli.terminal import caller
from roboco.client.audit import IN_REQUEST, Act, audited
from roboco.client.commands import handle, handle_task_command
from roboco.client.operator.operator import Operator
from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.paths import lineage_path
from roboco.errors import UsageError
from roboco.settings import Settings, load_settings
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.world import TASK, World
from tests.unit.engine.accept.test_resolve import world_with_unknown_outcome
from tests.unit.engine.accept.test_retry_task import NEW, failed_world
from tests.unit.engine.test_external_calls import world_with_calls

BY = "key:17"


def calling_world() -> World:
    """Return a world whose task waits for the answer to a call, and for the approval of another one."""

    return world_with_calls(("client_ask", {"q": 1}), ("pay", {"amount": 5}))


def call_id(world: World, number: int) -> str:
    """Return the id of a call of the first turn."""
    return world.history()[1].calls[number].id


Case = tuple[Callable[[], World], Callable[[World], dict[str, Any]]]
CASES: dict[str, Case] = {
    names.SEND_TASK: (MANUAL.at_rest, lambda world: {"message": "more"}),
    names.INTERRUPT_TASK: (MANUAL.at_rest, lambda world: {"message": "now"}),
    names.STOP_TASK: (MANUAL.at_rest, lambda world: {"reason": "enough"}),
    names.PAUSE_TASK: (MANUAL.at_rest, lambda world: {}),
    names.STEP_TASK: (MANUAL.at_rest, lambda world: {}),
    names.RESUME_TASK: (MANUAL.at_rest, lambda world: {}),
    names.SET_LIMITS_TASK: (MANUAL.at_rest, lambda world: {"limits": {"max_steps": 50}}),
    names.FORK_TASK: (MANUAL.at_rest, lambda world: {"task_id": "fork_1", "source": TASK, "seq": 1}),
    names.ANSWER_TASK: (calling_world, lambda world: {"call_id": call_id(world, 0), "result": 1}),
    names.APPROVE_TASK: (calling_world, lambda world: {"call_id": call_id(world, 1)}),
    names.DENY_TASK: (calling_world, lambda world: {"call_id": call_id(world, 1)}),
    names.RESOLVE_TASK: (
        world_with_unknown_outcome,
        lambda world: {"call_id": call_id(world, 0), "happened": True, "result": 1},
    ),
    names.RETRY_TASK: (failed_world, lambda world: {"reason": "once more", "limits": {"max_steps": 50}}),
}
"""A world in which a command is accepted, and its arguments."""


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of an audit file with outcomes. Assert that a line precedes each of them as its act begins."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    ended = [line for line in found if line["outcome"] != "begun"]
    begun = [line for line in found if line["outcome"] == "begun"]
    for before, after in zip(begun, ended, strict=True):
        assert without_end(before).items() <= without_end(after).items()
    assert len({line["act"] for line in begun}) == len(begun)
    return ended


def without_end(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line without what only its end can know."""
    return {name: str(value) for name, value in line.items() if name not in ("time", "outcome", "error")}


def record_of(world: World) -> str:
    """Return all that the workspace holds of tasks but their inboxes: histories, events and lineages."""
    ids = [task_id for task_id in (TASK, NEW, "fork_1") if any(world.histories.lines(task_id))]
    steps = [step.line() for task_id in ids for step in world.histories.read(task_id)]
    lineage = world.files.get(lineage_path("fork_1")) or b""
    return json.dumps([steps, world.events(), lineage.decode()])


def finish(world: World) -> None:
    """Let the task apply the control: give the other call its decision too."""
    world.settle()
    if world.status() in ("approval", "client_tool_turn"):
        for name, number, rest in ((names.ANSWER_TASK, 0, {"result": 1}), (names.DENY_TASK, 1, {})):
            arguments = {"task_id": TASK, "call_id": call_id(world, number), **rest}
            try:
                handle_task_command(world.engine, Settings(), name, arguments, "x")
            except UsageError:  # it has its decision already
                continue
        world.settle()


@pytest.mark.parametrize(
    ("name", "way"),
    [*((name, "client") for name in CASES), *((names.SEND_TASK, way) for way in ("settings", "celery", "http"))],
)
def test_a_control_names_its_caller_in_the_record_and_in_the_audit_log(name: str, way: str, tmp_path: Path) -> None:
    world = CASES[name][0]()
    if name in (names.RESUME_TASK, names.STEP_TASK):
        handle_task_command(world.engine, Settings(), names.PAUSE_TASK, {"task_id": TASK}, "p1")
        world.settle()
    arguments = {"task_id": TASK} | CASES[name][1](world)
    log = tmp_path / "audit.log"
    settings = Settings(audit_log=log, caller=BY if way == "settings" else None)
    named = arguments if way == "settings" else arguments | {"by": BY}
    assert BY not in record_of(world)
    token = IN_REQUEST.set("r1" if way == "http" else "")
    try:
        (handle if way == "celery" else handle_task_command)(world.engine, settings, name, named, "item1")
    finally:
        IN_REQUEST.reset(token)
    finish(world)
    assert BY in record_of(world)
    [line] = lines(log)
    shown = {field: line[field] for field in ("action", "by", "task", "tenant", "way", "outcome")}
    assert shown == {
        "action": name.removeprefix("roboco."),
        "by": BY,
        "task": arguments["task_id"],
        "tenant": None,
        "way": "client" if way == "settings" else way,
        "outcome": "accepted",
    }
    assert line.get("request") == ("r1" if way == "http" else None)
    assert line["item"] == "item1"
    assert line.get("call") == arguments.get("call_id")
    assert line.get("limits") == arguments.get("limits")
    assert "more" not in log.read_text()


def test_a_refused_control_is_in_the_audit_log_without_its_content(tmp_path: Path) -> None:
    world, log = MANUAL.at_rest(), tmp_path / "audit.log"
    with pytest.raises(UsageError):
        handle(world.engine, Settings(audit_log=log), names.SEND_TASK, {"task_id": "t9", "message": "secret"}, "i")
    wrong = {"task_id": 7, "by": ["x"], "limits": {"a": "x" * 5000}, "item_id": "y" * 5000}
    with pytest.raises(UsageError):
        handle(world.engine, Settings(audit_log=log), names.SET_LIMITS_TASK, wrong, "i")
    tenants = {"task_id": "t9", "tenant": "acme"}
    with pytest.raises(UsageError):
        handle(world.engine, Settings(audit_log=log), names.PAUSE_TASK, tenants, "i")
    first, second, third = lines(log)
    assert (third["task"], third["tenant"]) == ("acme:t9", "acme")
    assert (first["outcome"], first["task"], first["error"]) == ("refused", "t9", "not_found")
    assert (second["outcome"], second["task"], second["by"], second["limits"]) == ("refused", None, None, None)
    assert len(second["item"]) == 200
    assert "secret" not in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_control_is_refused_while_the_audit_file_cannot_be_opened(tmp_path: Path) -> None:
    world = MANUAL.at_rest()
    with pytest.raises(UsageError, match=r"ROBOCO_AUDIT_LOG: .* cannot be opened .*; nothing was done"):
        handle(world.engine, Settings(audit_log=tmp_path), names.STOP_TASK, {"task_id": TASK}, "i")
    world.settle()
    assert not world.status().ended


def test_a_process_that_dies_in_an_act_leaves_the_line_of_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    if (child := os.fork()) == 0:
        with audited(Act("stop", BY, TASK, details={"item": "i"}), log):
            os._exit(0)
    os.waitpid(child, 0)
    [line] = [json.loads(line) for line in log.read_text().splitlines()]
    assert (line["action"], line["by"], line["task"], line["item"]) == ("stop", BY, TASK, "i")
    assert line["outcome"] == "begun"


@pytest.mark.parametrize("short", [False, True])
def test_nothing_is_done_if_its_beginning_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    def write(file: int, data: bytes) -> int:
        if short:
            return len(data) - 1
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("roboco.client.audit.os.write", write)
    acts = []
    with (
        pytest.raises(UsageError, match=r"cannot be written \(No space left on device\); nothing was done"),
        audited(Act("stop", BY), tmp_path / "audit.log"),
    ):
        acts.append("done")
    assert not acts


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="cannot be opened"), audited(Act("stop", BY), pipe):
        pass
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (pipe, Path("/dev/full")):
            with pytest.raises(UsageError, match="is neither a file nor the output"), audited(Act("stop", BY), path):
                pass
    finally:
        os.close(reader)


def test_wrong_limits_are_not_in_the_audit_log(tmp_path: Path) -> None:
    log, world = tmp_path / "audit.log", MANUAL.at_rest()
    wrong: list[Any] = [{"max_steps": "all my secrets"}, {"secret": 1}, ["secret"], {"max_steps": -1}]
    for limits in wrong:
        for name in (names.SET_LIMITS_TASK, names.RETRY_TASK):
            with pytest.raises(UsageError):
                handle(world.engine, Settings(audit_log=log), name, {"task_id": TASK, "limits": limits}, "i")
    assert [(line["outcome"], line["limits"]) for line in lines(log)] == [("refused", None)] * 8
    assert "secret" not in log.read_text()


def test_without_a_file_the_line_goes_to_the_logger_and_in_a_request_to_neither(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "roboco.audit")
    world = MANUAL.at_rest()
    handle(world.engine, Settings(), names.PAUSE_TASK, {"task_id": TASK, "by": BY}, "i")
    [record] = [one for one in caplog.records if one.name == "roboco.audit"]
    assert json.loads(record.message)["by"] == BY
    token = IN_REQUEST.set("r1")
    handle(world.engine, Settings(), names.RESUME_TASK, {"task_id": TASK}, "j")
    IN_REQUEST.reset(token)
    assert len([one for one in caplog.records if one.name == "roboco.audit"]) == 1


def test_acts_of_an_operator_are_in_the_audit_log(tmp_path: Path) -> None:
    world, log = MANUAL.at_rest(), tmp_path / "audit.log"
    unused: Any = None
    operator = Operator(world.engine, Settings(audit_log=log, caller="cli:me"), unused, unused)
    letter = dead_letter_of_lost_work("turn", TASK, "lead, step 3", "lost", 5, world.engine.now())
    world.engine.tasks.dead_letters.add(letter)
    with pytest.raises(UsageError):
        operator.requeue_dead_letter(letter.letter_id)
    operator.dismiss_dead_letter(letter.letter_id, by=BY)
    created = operator.create_key(name="shop", tenant="acme")
    operator.revoke_key(created.key.id)
    found = [(line["action"], line["by"], line["outcome"]) for line in lines(log)]
    assert found == [
        ("requeue_dead_letter", "cli:me", "refused"),
        ("dismiss_dead_letter", BY, "accepted"),
        ("create_key", "cli:me", "accepted"),
        ("revoke_key", "cli:me", "accepted"),
    ]
    assert [(line.get("key"), line.get("key_tenant")) for line in lines(log)][2:] == [(created.key.id, "acme")] * 2
    assert created.text not in log.read_text()


def test_a_command_acts_for_the_user_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "box\n")
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_123)
    monkeypatch.setenv("USER", "mallory")
    assert caller.local_caller() == "cli:4000000123@box?"
    assert caller.caller_settings(Settings()).caller == "cli:4000000123@box?"
    assert caller.caller_settings(Settings(caller="ops")).caller == "ops"
    with pytest.raises(UsageError, match="ROBOCO_CALLER"):
        load_settings({"ROBOCO_CALLER": "two\nlines"})
