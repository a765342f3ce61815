"""The codes of refused calls: each public control says why it is refused, in a word for programs."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from roboco.client.task import Task
from roboco.domain.ids import qualified_id
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.settings import Settings
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World
from tests.unit.engine.test_external_calls import world_with_calls

CONTROLS: dict[str, Callable[[Task], object]] = {
    "send": lambda task: task.send("hello"),
    "interrupt": lambda task: task.interrupt("hello"),
    "pause": lambda task: task.pause(),
    "step": lambda task: task.step(),
    "resume": lambda task: task.resume(),
    "answer": lambda task: task.answer("tc_1", 1),
    "approve": lambda task: task.approve("tc_1"),
    "deny": lambda task: task.deny("tc_1"),
    "resolve": lambda task: task.resolve("tc_1", True),
    "set_limits": lambda task: task.set_limits(max_steps=50),
}
"""All controls but `retry`, which is for failed tasks, and `stop`, which no unknown or ended task refuses."""


def control(world: World, task_id: str = TASK) -> Task:
    return Task(task_id, world.engine, cast(Any, None), Settings())


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as refused:
        call()
    return refused.value.code


def test_controls_of_unknown_and_ended_tasks_and_decisions_on_unknown_calls_say_so() -> None:
    unknown, ended = MANUAL.world(), MANUAL.at_rest()
    ended.stop()
    ended.settle()
    assert ended.status() is TaskStatus.CANCELLED
    calling = world_with_calls(("client_ask", {"q": 1}), ("pay", {"amount": 5}))
    found = {
        name: tuple(code_of(partial(act, control(world))) for world in (unknown, ended))
        for name, act in CONTROLS.items()
    }
    assert found == dict.fromkeys(CONTROLS, ("not_found", "ended"))
    assert not unknown.files.held
    decisions = ("answer", "approve", "deny", "resolve")
    assert {code_of(partial(CONTROLS[name], control(calling))) for name in decisions} == {"not_found"}


def test_decision_on_a_call_that_has_a_result_is_a_conflict() -> None:
    world = world_with_calls(("client_ask", {"q": 1}), ("pay", {"amount": 5}))
    asked, paid = world.history()[1].calls
    world.given.model.script = lambda request: says("client", ("client_ask", {"q": 2}))
    world.interrupt("no")
    world.settle()
    assert world.status() is TaskStatus.CLIENT_TOOL_TURN
    task = control(world)
    assert code_of(lambda: task.answer(asked.id, 1)) == "conflict"
    assert code_of(lambda: task.approve(paid.id)) == "conflict"
    assert code_of(lambda: task.resolve(paid.id, True)) == "conflict"


def test_message_to_a_busy_team_that_rejects_it_is_a_conflict() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    assert code_of(lambda: control(world).send("hello", if_busy="reject")) == "conflict"


WRONG: dict[str, Callable[[Task], object]] = {
    "an empty message": lambda task: task.send(" "),
    "an unknown agent": lambda task: task.send("hello", agent="nobody"),
    "a reserved id": lambda task: task.pause(item_id="answer-1"),
    "an invalid id": lambda task: task.pause(item_id="../x"),
    "no limit": lambda task: task.set_limits(),
    "an unknown tool": lambda task: task.set_limits(tools={"nothing": {"max_calls": 1}}),
    "a result of an error": lambda task: task.answer("tc_1", 1, status="error"),
    "a result of what did not happen": lambda task: task.resolve("tc_1", False, 1),
}


def test_a_wrong_argument_is_invalid() -> None:
    world = MANUAL.at_rest()
    assert {name: code_of(partial(act, control(world))) for name, act in WRONG.items()} == dict.fromkeys(
        WRONG, "invalid"
    )


def test_approval_of_a_call_that_needs_none_is_invalid() -> None:
    world = world_with_calls(("client_ask", {"q": 1}), ("pay", {"amount": 5}))
    asked, paid = world.history()[1].calls
    assert code_of(lambda: control(world).approve(asked.id)) == "invalid"
    assert code_of(lambda: control(world).answer(paid.id, 1)) == "invalid"


def test_task_of_another_tenant_is_forbidden() -> None:
    assert code_of(lambda: qualified_id("acme", "other:order-17")) == "forbidden"
