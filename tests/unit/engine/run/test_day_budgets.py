"""The usage of a day: each step counts once, and a turn waits while the budget of its tenant is used up."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roboco.domain.day_budget import DayBudget, TenantBudgets, parse_budget
from roboco.domain.ids import sub_task_id
from roboco.domain.status import TaskStatus
from roboco.domain.task_usage import TaskUsage
from roboco.domain.usage import BILLION, day_of
from roboco.engine.day_budgets import MAX_WAIT
from roboco.errors import ModelError, UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import TOOLS, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import crash_at, make_call, refusing
from tests.support.memory_ports.world import POLICY, World, team_of, world_parts

TASK = "acme:t1"
TEAM = team_of(
    agents=[member("writer")],
    models={"standard": {"model": "m", "price_in": 1.0, "price_out": 1.0}},
    collaboration_model={"type": "manual"},
)


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


@pytest.mark.parametrize("entry", ["acme=/", "=5", "acme=-1", "acme=5/1.5", "acme=nan"])
def test_a_wrong_entry_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="is no budget: write TENANT=COST/TOKENS"):
        parse_budget(entry)


def test_turns_that_run_together_exceed_the_budget_by_one_reply_at_most() -> None:
    others = [f"acme:t{n}" for n in range(2, 8)]
    worlds: list[World] = []

    def submit_others() -> None:
        for task_id in others:
            worlds[0].submit(TEAM, task_id=task_id)
        worlds[0].drain()

    def script(request: Request) -> ScriptedReply:
        first = worlds[0].engine.services.rate_limiter.spent("acme", day_of(worlds[0].engine.now())).tokens == 0
        alone = first and len(worlds[0].given.model.requests) == 1
        return ScriptedReply(("an answer",), meanwhile=submit_others if alone else lambda: None)

    policy = replace(POLICY, budgets=TenantBudgets(("acme=/20",)))
    worlds.append(World(world_parts(script, policy=policy)))
    world = worlds[0]
    world.submit(TEAM, task_id=TASK)
    world.settle(TASK)
    assert len(world.given.model.requests) == 1
    assert reason(world, others[0]).startswith("writer waits: tenant acme nears its budget, ")
    assert "tokens and 0.00" in reason(world, others[0])
    for _ in range(40):
        world.drain()
        world.sweep()
    one = spent(world)[0] // len(world.given.model.requests)
    assert len(world.given.model.requests) == -(-20 // one)  # each of the others began alone, below the budget
    assert spent(world)[0] < 20 + one


@pytest.mark.parametrize("silent", [False, True])
def test_sub_tasks_that_run_together_exceed_the_limits_of_their_caller_by_one_reply_at_most(silent: bool) -> None:
    tasks = [("delegate", {"team": "clerks", "prompt": f"{n}"}) for n in range(20)]

    def script(request: Request) -> ScriptedReply:
        if speaker(request) == "lead" and own_turns(request) == 0:
            return says("", *tasks)
        return says("an answer")

    world = World(world_parts(script), refusing("rates.reserve_for_caller") if silent else make_call)
    world.engine.services.rate_limiter.note_limits("acme", "key:1", DayBudget(tokens=60))
    clerks = {"name": "clerks", "agents": [member("clerk")]}
    team = team_of(agents=[member("lead", delegates=["clerks"])], teams={"clerks": clerks})
    world.submit(team, task_id=TASK, by="key:1")
    for _ in range(60):
        world.drain()
        world.sweep()
    one = spent(world, by="key:1")[0] // len(world.given.model.requests)
    assert (len(world.given.model.requests) == 22) is silent
    if not silent:
        assert spent(world, by="key:1")[0] < 60 + one
        waiting = sub_task_id(TASK, world.history(TASK)[1].calls[-1].id)
        assert "clerk waits: key:1 has used up its limit of the day" in reason(world, waiting)
        world.engine.services.rate_limiter.note_limits("acme", "key:1", DayBudget(tokens=10**6))
        world.clock.move(MAX_WAIT)
        for _ in range(60):
            world.drain()
            world.sweep()
    assert world.status(TASK) is TaskStatus.COMPLETED
    assert not world.server.held.caller_reservations


@pytest.mark.parametrize(
    ("dies_at", "conversation", "status"),
    [
        ("", True, TaskStatus.USER_TURN),  # the turn's commit
        ("model.stream", True, TaskStatus.USER_TURN),  # the coordinator's commit
        ("rates.count_day", False, TaskStatus.FAILED),  # the end, after the step was recovered
    ],
)
def test_the_reservation_of_a_turn_without_usage_ends(dies_at: str, conversation: bool, status: TaskStatus) -> None:
    policy = replace(POLICY, budgets=TenantBudgets(("acme=/999999",)))
    refusal = ScriptedReply(error=ModelError("model", "401 wrong key", False))
    world = World(world_parts(lambda request: refusal, policy=policy), crash_at(dies_at, times=1))
    world.submit(TEAM, task_id=TASK, conversation=conversation)
    world.drain()
    if dies_at == "model.stream":
        world.halt(task_id=TASK)
    world.settle(TASK)
    assert world.status(TASK) is status
    assert not world.server.held.day_reservations
    assert spent(world) == (0, 0)


def test_a_turn_that_its_model_defers_reserves_nothing_for_a_day_or_a_caller() -> None:
    policy = replace(POLICY, budgets=TenantBudgets(("acme=/999999",)))
    at_limit = ScriptedReply(error=ModelError("rate_limit", "at its limit", True, 60.0))
    world = World(world_parts(lambda request: at_limit, policy=policy))
    world.submit(TEAM, task_id=TASK, by="alice")
    world.drain()
    assert len(world.given.model.requests) == 1
    assert not world.server.held.day_reservations
    assert not world.server.held.caller_reservations
