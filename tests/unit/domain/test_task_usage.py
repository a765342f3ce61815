"""The usage of a task by agent, model, tool and day: every step counts once."""

from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep
from roboco.domain.task_usage import TaskUsage, step_usage
from roboco.domain.usage import BILLION
from tests.unit.domain.steps import TASK, histories, steps_of

AGENTS, TOOLS = ("one", "two"), ("add", "find")


def counted(steps: list[TaskStep], task_id: str = TASK) -> TaskUsage:
    """Return the usage of all steps."""
    return TaskUsage(task_id=task_id).after(steps)


def sums(usage: TaskUsage) -> tuple[int, int, int, int]:
    """Return turns, tokens, calls and billionths of all cells."""
    cells = usage.cells
    return (
        sum(cell.turns for cell in cells),
        sum(cell.tokens_in + cell.tokens_out for cell in cells),
        sum(cell.calls for cell in cells),
        sum(cell.cost_billionths for cell in cells),
    )


def metadata(pick: Random, author: str) -> dict[str, Any]:
    """Return the usage of a step as workers record it."""
    tokens = {"tokens_in": pick.randrange(1000), "tokens_out": pick.randrange(100)}
    cost = {"cost": pick.randrange(10**6) / BILLION} if pick.random() < 0.7 else {}
    unfinished = {"unfinished_usage": {"agent": pick.choice(AGENTS), **tokens, **cost}}
    if author == "tool_executor":
        used = {name: {"calls": pick.randrange(1, 4), "seconds": 0.1, **cost} for name in TOOLS if pick.random() < 0.7}
        total = sum(one.get("cost", 0.0) for one in used.values())
        return {"tools": used, "usage": {"cost": total}} | (unfinished if pick.random() < 0.2 else {})
    model = {"model": pick.choice(["small", "large"])} if pick.random() < 0.8 else {}
    return {"usage": tokens | cost} | model | (unfinished if pick.random() < 0.2 else {})


@st.composite
def working_histories(draw: st.DrawFn) -> list[TaskStep]:
    """Return histories of several days whose steps carry usage."""
    pick, time, lines = Random(draw(st.integers(0, 10**6))), datetime(2026, 1, 30, 20, tzinfo=UTC), []
    for author in draw(st.lists(st.sampled_from((*AGENTS, "tool_executor")), max_size=30)):
        lines.append((author, "text", metadata(pick, author)))
    steps: list[TaskStep] = []
    for step in steps_of(("user", "go"), *lines):
        time += timedelta(minutes=pick.randrange(600))
        moved = step.model_copy(update={"created_at": time.astimezone(timezone(timedelta(hours=5)))})
        steps.append(moved.sealed(steps[-1].digest if steps else ""))
    return steps


@given(working_histories())
def test_the_sum_over_cells_is_the_sum_over_steps(steps: list[TaskStep]) -> None:
    turns, tokens, calls, cost = sums(counted(steps))
    state = fold(steps)
    assert turns == sum(step.by_agent for step in steps)
    assert (tokens, calls) == (state.tokens, state.calls)
    assert cost == sum(cell.cost_billionths for step in steps for cell in step_usage(TASK, step, ""))
    assert abs(cost / BILLION - state.cost) < 1e-7


@given(histories())
def test_copied_steps_of_a_fork_count_in_their_source_alone(steps: list[TaskStep]) -> None:
    assert sums(counted(steps, "the-fork")) == (0, 0, 0, 0)


def test_imported_steps_and_results_of_sub_tasks_cost_nothing() -> None:
    sub_task = {"tools": {"delegate": {"calls": 1, "seconds": 9, "cost": 5.0}}, "usage": {"tokens_in": 7, "cost": 5.0}}
    steps = steps_of(
        ("one", "before", {"imported": True, "usage": {"tokens_in": 5, "cost": 1.0}}),
        ("user", "go"),
        ("one", "asks", {"usage": {"tokens_in": 2, "tokens_out": 1}, "model": "small"}),
        ("tool_executor", "result", sub_task),
    )
    assert sums(counted(steps)) == (1, 3, 1, 0)


def test_calls_belong_to_the_agent_that_made_them_and_days_are_those_of_utc() -> None:
    late = datetime(2026, 1, 31, 1, tzinfo=timezone(timedelta(hours=2)))
    steps = [
        step.model_copy(update={"created_at": late})
        for step in steps_of(
            ("user", "go"),
            ("two", "asks", {"usage": {"tokens_in": 2}, "model": "small"}),
            ("tool_executor", "result", {"tools": {"find": {"calls": 2, "seconds": 1, "cost": 0.02}}}),
            ("orchestrator", "limit", {"limit": "one", "usage": {"tokens_in": 9}}),
        )
    ]
    found = [
        (cell.place, cell.turns, cell.tokens_in, cell.calls, cell.cost_billionths) for cell in counted(steps).cells
    ]
    assert found == [
        (("one", "", "", "2026-01-30"), 0, 9, 0, 0),
        (("two", "", "find", "2026-01-30"), 0, 0, 2, 20_000_000),
        (("two", "small", "", "2026-01-30"), 1, 2, 0, 0),
    ]
