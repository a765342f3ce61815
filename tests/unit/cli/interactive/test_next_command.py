"""The pending calls of a waiting task, and the command that continues it."""

import pytest

from roboco.cli.interactive.next_command import next_commands
from roboco.client.pending_actions import PendingActions
from roboco.domain.history.part import ToolCall
from roboco.domain.status import TaskStatus
from roboco.engine.accept.answer import CallApproval, decide_approval
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
    assert next_commands(TASK, pending, TaskStatus.APPROVAL) == [
        f"roboco {verb} {TASK} {call.id}  # {call.tool_name}" for call in (pay, wire) for verb in ("approve", "deny")
    ]
    decide_approval(world.engine, TASK, pay.id, CallApproval(False))
    assert pending.unapproved() == [wire]
    commands = next_commands(TASK, pending, TaskStatus.APPROVAL)
    assert commands == [f"roboco approve {TASK}  # wire", f"roboco deny {TASK}  # wire"], "the only call needs no id"
    decide_approval(world.engine, TASK, wire.id, CallApproval(True))
    assert pending.unapproved() == pending.unknown() == []


@pytest.mark.parametrize(
    ("status", "command"),
    [(TaskStatus.PAUSED, f"roboco resume {TASK}"), (TaskStatus.USER_TURN, f"roboco send {TASK} MESSAGE")],
)
def test_next_command_without_calls_follows_from_the_status(status: TaskStatus, command: str) -> None:
    pending = PendingActions(World(world_with_unknown_outcome().given).engine, TASK)
    assert next_commands(TASK, pending, status) == [command]
