"""An agent of pydantic-ai as a member of a team, in a whole deployment in memory with the real toolbox."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.day_budget import TenantBudgets
from roboco.domain.history.state import fold
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.task_usage import TaskUsage
from roboco.domain.team.team import Team
from roboco.errors import InvalidTeam
from roboco.lab.replay.replay import replay
from roboco.tools.toolbox import FunctionToolbox
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import POLICY, World, team_of, world_parts
from tests.support.toolboxes import toolbox_of
from tests.unit.tools import pydantic_agent

TASK = "acme:t1"
MODULE = "tests.unit.tools.pydantic_agent"
AGENT = {"name": "support", "pydantic_ai": f"{MODULE}:support", "deps": f"{MODULE}:deps", "effect": "pure"}


def team() -> Team:
    return team_of(agents=[AGENT])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path)


def world_of(tmp_path: Path, *budgets: str) -> World:
    """Return a world with these budgets of tenants."""
    pydantic_agent.REQUESTS.clear()
    pydantic_agent.CALLS.clear()
    given = world_parts(lambda request: says(""), policy=replace(POLICY, budgets=TenantBudgets(budgets)))
    found = World(given)
    real: FunctionToolbox = toolbox_of(found.files, found.histories, (MODULE,), tmp_path)
    for name in ("run", "check", "describe"):
        setattr(given.toolbox, name, getattr(real, name))
    return found


def test_each_request_is_a_turn_and_each_tool_call_a_task(world: World) -> None:
    world.submit(team(), context={"extra": 4})
    world.settle()
    history = world.history()
    assert world.summary().status is TaskStatus.COMPLETED, world.summary().reason
    assert [step.agent_name for step in history] == [
        *("user", "support", "tool_executor", "support", "tool_executor"),
        *("support", "tool_executor", "support"),
    ]
    assert [call.tool_name for call in history[3].calls] == ["support__add", "support__twice"]
    assert [result.result for result in history[4].results] == [7, 10]
    assert history[-1].metadata["output"] == {"total": 17}
    assert pydantic_agent.REQUESTS == ["Add 4."] * 3  # the third corrects the total that the validator refused
    assert sorted(pydantic_agent.CALLS) == ["add 1 2", "twice 5"]
    assert fold(history).tokens_in > 0
    began = history[0].created_at
    past = RecordedTask(team(), tuple(history), TaskStatus.COMPLETED, world.summary().reason, began)
    assert {position.comparison for position in replay(past)} == {"same"}


def test_a_message_after_the_answer_continues_the_conversation(world: World) -> None:
    world.submit(team(), conversation=True)
    world.settle()
    world.send("and again", "item1")
    world.settle()
    assert world.summary().status is TaskStatus.USER_TURN, world.summary().reason
    assert world.history()[-1].metadata["output"] == {"total": 13}
    assert len(pydantic_agent.REQUESTS) == 4  # its model sees the earlier messages, and answers at once


def test_a_turn_counts_for_the_budget_of_its_tenant_and_waits_once_it_is_used_up(tmp_path: Path) -> None:
    world = world_of(tmp_path, "acme=/1")
    world.submit(team(), task_id=TASK)
    world.drain()
    for _ in range(3):
        world.clock.move(60)
        world.sweep()
        assert not world.dispatcher.queue
    state = fold(world.history(TASK), TASK)
    assert len(pydantic_agent.REQUESTS) == 1
    assert state.day_usage.tokens == state.tokens > 0
    cells = TaskUsage(task_id=TASK).after(world.history(TASK)).cells
    assert sum(cell.tokens_in + cell.tokens_out for cell in cells) == state.tokens
    held = world.server.held.tasks[TASK]
    assert held.reason.startswith(f"support waits: tenant acme has used {state.tokens} tokens today")
    assert held.calls[world.history(TASK)[-1].calls[0].id].attempt == 1
    world.clock.move(86_400)
    world.sweep()
    world.drain()
    assert len(pydantic_agent.REQUESTS) > 1


@pytest.mark.parametrize("at", range(1, 140, 19))
def test_a_kill_repeats_no_request_that_is_recorded(world: World, at: int) -> None:
    world.submit(team())
    count = [0]

    def watch(name: str, call: Any) -> Any:
        count[0] += 1
        if count[0] == at:
            raise Crash
        return call()

    world.watch = watch
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED, world.summary().reason
    assert world.history()[-1].metadata["output"] == {"total": 13}
    assert len(world.history()) == 8
    assert len(pydantic_agent.REQUESTS) <= 5  # at most those of the killed turn, one or two, are sent again
    assert len(pydantic_agent.CALLS) <= 3


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tools": ["artifact_list"]}, "has no tools"),
        ({"prompt": "hi"}, "has no prompt"),
        ({"model": "m"}, "with the field pydantic_ai has no model"),
        ({"function": "a.b:c"}, r"agents\[0\]: function and pydantic_ai exclude each other"),
        ({"pydantic_ai": None, "prompt": "hi", "effect": None}, "deps: needs the field pydantic_ai"),
    ],
)
def test_fields_that_do_not_carry_over_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidTeam, match=why):
        team_of(agents=[AGENT | fields])


CASHIER = {"name": "cashier", "pydantic_ai": f"{MODULE}:cashier"}


def test_calls_of_two_replies_with_one_id_are_two_calls(world: World) -> None:
    world.submit(team_of(agents=[CASHIER]), conversation=True)
    world.settle()
    assert world.history()[-1].text == "paid 1, paid 2", world.summary().reason
    assert pydantic_agent.CALLS == ["pay 1", "pay 2"]


@pytest.mark.parametrize(
    ("changed", "paid"), [({"amount": 5}, "paid 5"), ({"amount": "5"}, "paid 5"), ({"sum": 5}, "")]
)
def test_a_call_runs_with_the_arguments_that_a_person_has_approved(
    world: World, changed: dict[str, Any], paid: str
) -> None:
    world.submit(team_of(agents=[CASHIER | {"approval": "required"}]))
    world.settle()
    world.decide_approval(world.history()[-1].calls[0].id, True, "", changed)
    world.settle()
    [result] = next(step.results for step in world.history() if step.results and "answer" not in step.metadata)
    assert str(result.result or "") == paid
    assert result.is_error is not bool(paid)
    assert (["pay 5"] if paid else []) == pydantic_agent.CALLS


def test_deps_that_demand_an_approval_are_refused_and_named_among_the_functions(world: World) -> None:
    declared = team_of(agents=[AGENT | {"deps": f"{MODULE}:purge"}])
    assert f"{MODULE}:purge" in declared.functions
    world.submit(declared)
    world.settle()
    assert "demands no effect" in world.summary().reason
    assert pydantic_agent.CALLS == []


def test_a_tool_that_has_the_model_try_again_is_an_error(world: World) -> None:
    pydantic_agent.MAX_AMOUNT[0] = 1
    world.submit(team_of(agents=[CASHIER]))
    world.settle()
    pydantic_agent.MAX_AMOUNT[0] = 99
    found = [
        (one.result, one.error) for step in world.history() for one in step.results if "answer" not in step.metadata
    ]
    assert found == [("paid 1", None), (None, "at most 1")]
