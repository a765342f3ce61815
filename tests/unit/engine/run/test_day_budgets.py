"""The usage of a day: each step counts once, and a turn waits while the budget of its tenant is used up."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roboco.domain.day_budget import DayBudget, TenantBudgets, parse_budget
from roboco.domain.status import TaskStatus
from roboco.domain.task_usage import TaskUsage
from roboco.domain.usage import BILLION, day_of
from roboco.engine.day_budgets import MAX_WAIT
from roboco.engine.engine import Policy
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import TOOLS, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import POLICY, World, team_of, world_parts

TASK = "acme:t1"
TEAM = team_of(
    agents=[member("writer")],
    models={"standard": {"model": "m", "price_in": 1.0, "price_out": 1.0}},
    collaboration_model={"type": "manual"},
)


TEAM_OF_TWO = team_of(agents=[member("one"), member("two")])


def world_of(*entries: str) -> World:
    """Return a world with these budgets."""
    policy = replace(POLICY, budgets=TenantBudgets(entries))
    return World(world_parts(lambda request: says("an answer"), policy=policy))


def spent(world: World, tenant: str = "acme", by: str | None = None) -> tuple[int, int]:
    """Return the tokens and billionths that the tenant or its caller has used today."""
    used = world.engine.services.rate_limiter.spent(tenant, day_of(world.engine.now()), by)
    return used.tokens, used.cost_billionths


def recorded(world: World, *task_ids: str) -> tuple[int, int]:
    """Return the same from the histories."""
    cells = [
        cell
        for task_id in task_ids
        for cell in TaskUsage(task_id=task_id).after(world.histories.read(task_id)).cells
        if cell.day == day_of(world.engine.now())
    ]
    return sum(cell.tokens_in + cell.tokens_out for cell in cells), sum(cell.cost_billionths for cell in cells)


def reason(world: World, task_id: str = TASK) -> str:
    """Return the reason of the task's status in Redis."""
    return world.server.held.tasks[task_id].reason


def test_a_turn_waits_with_a_reason_once_the_budget_is_used_up_and_continues_on_the_next_day() -> None:
    world = world_of("acme=/1")
    world.submit(TEAM, task_id=TASK)
    world.settle(TASK)
    assert world.status(TASK) is TaskStatus.USER_TURN  # the first turn began below the budget
    assert spent(world) == recorded(world, TASK)
    tokens = spent(world)[0]
    assert tokens > 0
    world.send("more", task_id=TASK)
    for _ in range(5):
        world.drain()
        world.sweep()
    now = world.engine.now()
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
    assert reason(world) == (
        f"writer waits: tenant acme has used {tokens} tokens today, its budget is 1; "
        f"it continues at {tomorrow:%Y-%m-%d} 00:00 UTC, or once the budget is raised"
    )
    assert len(world.history(TASK)) == 3
    world.clock.move((tomorrow - now).total_seconds() + MAX_WAIT)
    world.settle(TASK)
    assert len(world.history(TASK)) == 4
    assert spent(world) == recorded(world, TASK)


def test_a_turn_counts_before_the_one_that_its_worker_starts() -> None:
    world = world_of("acme=/1")
    world.submit(TEAM_OF_TWO, task_id=TASK)
    world.drain()
    assert len(world.history(TASK)) == 2
    assert reason(world).startswith("two waits: tenant acme has used")


@pytest.mark.parametrize("entries", [(), ("acme=1000",)])
def test_the_next_step_counts_what_redis_has_lost_of_the_usage_of_a_caller(entries: tuple[str, ...]) -> None:
    world = world_of(*entries)
    for number in range(3):
        world.submit(TEAM, task_id=TASK, by="alice") if number == 0 else world.send("more", f"m{number}", task_id=TASK)
        world.settle(TASK)
        if number < 2:
            world.server.held.day_usages.clear()
    assert len(world.history(TASK)) == 6
    assert spent(world, by="alice") == recorded(world, TASK)


@pytest.mark.parametrize("entries", [(), ("acme=1000",)])
def test_the_cost_of_tools_counts_before_the_next_turn(entries: tuple[str, ...]) -> None:
    def script(request: Request) -> ScriptedReply:
        seen.append((spent(world, by="alice"), recorded(world, TASK)))
        return TOOLS.script(request)

    seen: list[tuple[Any, Any]] = []
    policy = replace(POLICY, budgets=TenantBudgets(entries))
    tools = [tool.model_copy(update={"price": 0.01}) for tool in TOOLS.team.tools]
    team = TOOLS.team.model_copy(update={"tools": tuple(tools)})
    world = World(world_parts(script, TOOLS.functions, policy=policy))
    world.submit(team, task_id=TASK, by="alice")
    world.settle(TASK)
    assert spent(world) == spent(world, by="alice") == recorded(world, TASK)
    assert all(counted == in_history for counted, in_history in seen)
    assert spent(world)[1] >= BILLION // 100


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("acme=20", ("acme", DayBudget(20.0))),
        ("acme=0.5/100", ("acme", DayBudget(0.5, 100))),
        ("*=/7", ("*", DayBudget(None, 7))),
        ("acme=0", ("acme", DayBudget(0.0))),
    ],
)
def test_an_entry_names_a_tenant_its_cost_and_its_tokens(entry: str, expected: tuple[str, DayBudget]) -> None:
    assert parse_budget(entry) == expected


@pytest.mark.parametrize(
    "entry", ["acme", "acme=", "acme=/", "=5", "Acme=5", "acme=-1", "acme=5/1.5", "acme=nan", "a b=1"]
)
def test_a_wrong_entry_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="is no budget: write TENANT=COST/TOKENS"):
        parse_budget(entry)


def test_a_tenant_without_an_entry_has_that_of_all_others_and_no_tenant_has_none() -> None:
    budgets = TenantBudgets(("acme=5", "*=/7"))
    assert [budgets.of(name) for name in ("acme", "other", "")] == [DayBudget(5.0), DayBudget(None, 7), None]
    assert TenantBudgets().of("acme") is None
    assert Policy().budgets.of("acme") is None
