"""What a sub-task asks of a person or client appears at its parent, and is answered there."""

from typing import Any

import pytest

from roboco.client.pending_actions import PendingActions
from roboco.domain.ids import sub_task_id
from roboco.domain.status import TaskStatus
from roboco.engine.accept import sub_tasks
from roboco.engine.accept.answer import CallApproval, decide_approval
from roboco.engine.accept.wait_cause import wait_cause
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.shop_world import PARSE
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.unit.engine.test_task_entries import entry_in, without_index

PAY = {"name": "pay", "function": "shop.bank:pay", "effect": "irreversible", "approval": "required"}
CLERKS = {"name": "clerks", "agents": [member("clerk", tools=["pay"])], "tools": [PAY]}


def script(request: Request) -> ScriptedReply:
    if own_turns(request) > 0:
        return says("done")
    if speaker(request) == "clerk":
        return says("", ("pay", {"to": 1}))
    return says("", ("delegate", {"team": "clerks" if speaker(request) == "chief" else "chiefs", "prompt": "pay them"}))


def asking(deep: bool = False) -> tuple[World, str]:
    """Return a world in which a sub-task waits for an approval, or with `deep` its sub-task, and its id."""
    chiefs = {"name": "chiefs", "agents": [member("chief", delegates=["clerks"])], "teams": {"clerks": CLERKS}}
    world = World(world_parts(script, {"pay": lambda args, context: "paid"}))
    lead = member("lead" if deep else "chief", delegates=["chiefs" if deep else "clerks"])
    world.submit(team_of(agents=[lead], teams={"chiefs": chiefs, "clerks": CLERKS}))
    world.drain()
    asks = TASK
    for _ in range(2 if deep else 1):
        asks = sub_task_id(asks, world.history(asks)[1].calls[0].id)
    assert world.status(asks) is TaskStatus.APPROVAL
    return world, asks


@pytest.mark.parametrize("deep", [False, True])
def test_an_approval_of_a_sub_task_appears_and_is_decided_at_the_task(deep: bool) -> None:
    world, child = asking(deep)
    [call] = PendingActions(world.engine, TASK).unapproved()
    assert (call.tool_name, call) == ("pay", world.history(child)[1].calls[0])
    cause = wait_cause(world.engine, TASK, world.engine.tasks.task_store.load(TASK, 1))
    assert cause is not None
    assert cause.kind == "sub_task"
    assert cause.text == f"sub-task {child} waits (approval): a person must approve: pay ({call.id})"
    world.decide_approval(call.id, approved=True)
    assert PendingActions(world.engine, TASK).unapproved() == []
    world.decide_approval(call.id, approved=True)
    with pytest.raises(UsageError, match="was answered before, in another way"):
        world.decide_approval(call.id, approved=False)
    world.drain()
    assert world.history(child)[2].results[0].result == "paid"
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")


@pytest.mark.parametrize("lost", [False, True])
def test_a_call_that_waits_beside_another_one_is_marked_and_listed_at_the_task_and_its_parent(lost: bool) -> None:
    tools = [PAY, PARSE | {"timeout": 86_400}]
    clerks = {"name": "clerks", "agents": [member("clerk", tools=["pay", "parse"])], "tools": tools}

    def asks_beside(request: Request) -> ScriptedReply:
        if own_turns(request) == 0 and speaker(request) == "clerk":
            return says("", ("pay", {"to": 1}), ("parse", {"file": "a"}))
        return script(request)

    def watch(name: str, call: PortCall) -> Any:
        return without_index(name, call) if lost else call()

    world = World(world_parts(asks_beside, {"pay": lambda args, context: "paid"}), watch)
    world.submit(team_of(agents=[member("chief", delegates=["clerks"])], teams={"clerks": clerks}))
    world.drain()
    if lost:
        lost = False
        world.clock.move(60)
        world.settle_for(3)
    child = sub_task_id(TASK, world.history()[1].calls[0].id)
    asked = PendingActions(world.engine, TASK).unapproved()
    assert (world.status(child), [call.tool_name for call in asked]) == (TaskStatus.RUNNING, ["pay"])
    for task_id in (child, TASK):
        listed = entry_in(world, task_id)
        assert listed is not None
        assert listed.waits
        cause = wait_cause(world.engine, task_id, world.engine.tasks.task_store.load(task_id, 1))
        assert cause is not None
        assert (cause.kind, cause.text[:90]) == ("approval" if task_id == child else "sub_task", listed.reason[:90])
    decide_approval(world.engine, TASK, asked[0].id, CallApproval(True))
    world.drain()
    assert not any(one is None or one.waits for one in (entry_in(world, child), entry_in(world)))


def test_a_call_of_no_open_sub_task_is_refused() -> None:
    world, _ = asking()
    with pytest.raises(UsageError, match="is not an open call of task 'task_1'"):
        decide_approval(world.engine, TASK, "tc_absent", CallApproval(True))


def test_the_number_of_sub_tasks_that_are_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = asking(deep=True)
    monkeypatch.setattr(sub_tasks, "MAX_READ", 1)
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert len(list(sub_tasks.open_sub_tasks(world.engine.tasks, TASK, task))) == 1
