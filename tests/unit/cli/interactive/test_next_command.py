"""The pending calls of a waiting task, and the command that continues it."""

import pytest

from roboco.cli.interactive.next_command import next_command
from roboco.client.pending_actions import PendingActions
from roboco.domain.history.part import ToolCall
from roboco.domain.history.tool_outcome import successful_outcome
from roboco.domain.status import TaskStatus
from roboco.engine.accept.answer import CallApproval, answer, decide_approval
from tests.support.memory_ports.world import TASK, World
from tests.unit.engine.accept.test_resolve import world_with_unknown_outcome
from tests.unit.engine.test_external_calls import world_with_calls

PAY, WIRE, ASK = ("pay", {"amount": 5}), ("wire", {"amount": 500}), ("client_ask", {"q": "how many?"})


def pending_of(world: World) -> tuple[PendingActions, tuple[ToolCall, ...]]:
    return PendingActions(world.engine, TASK), world.history()[1].calls


def test_next_command_approves_the_calls_that_need_it() -> None:
    world = world_with_calls(PAY, ("add", {"a": 1, "b": 2}), ("wire", {"amount": 5}), WIRE)
    pending, (pay, _, _, wire) = pending_of(world)
    assert pending.unapproved() == [pay, wire]
    assert next_command(TASK, pending, TaskStatus.APPROVAL, False) == (
        f"roboco approve t CALL, or roboco deny t CALL; calls: {pay.id} (pay), {wire.id} (wire)"
    ).replace(" t ", f" {TASK} ")
    assert next_command(TASK, pending, TaskStatus.APPROVAL, True) == f"run it again with --id {TASK} on a terminal"
    decide_approval(world.engine, TASK, pay.id, CallApproval(False))
    assert pending.unapproved() == [wire]
    command = next_command(TASK, pending, TaskStatus.APPROVAL, False)
    assert command == f"roboco approve {TASK} {wire.id}, or roboco deny {TASK} {wire.id}"
    decide_approval(world.engine, TASK, wire.id, CallApproval(True))
    assert pending.unapproved() == pending.unknown() == []


def test_next_command_answers_the_calls_of_the_client() -> None:
    world = world_with_calls(ASK, ASK)
    pending, (first, second) = pending_of(world)
    assert pending.unanswered() == [first, second]
    answer(world.engine, TASK, successful_outcome(first, 7))
    assert pending.unanswered() == [second]
    command = f"roboco answer {TASK} {second.id} --result JSON"
    assert next_command(TASK, pending, TaskStatus.CLIENT_TOOL_TURN, False) == command


@pytest.mark.parametrize(
    ("status", "is_local", "command"),
    [
        (TaskStatus.PAUSED, False, f"roboco resume {TASK}"),
        (TaskStatus.USER_TURN, False, f"roboco send {TASK} MESSAGE"),
        (TaskStatus.USER_TURN, True, f"run it again with --id {TASK} on a terminal"),
    ],
)
def test_next_command_without_calls_follows_from_the_status(status: TaskStatus, is_local: bool, command: str) -> None:
    pending = PendingActions(World(world_with_unknown_outcome().given).engine, TASK)
    assert next_command(TASK, pending, status, is_local) == command
