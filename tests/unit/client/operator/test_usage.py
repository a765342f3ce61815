"""Reports of usage: the sum over tasks is that over the steps of their histories, and each history is read once."""

import csv
import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboco.client.operator.usage import UsageCollector, UsageSummary, csv_lines, json_lines, parse_day
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.paths import summary_path, usage_path
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary, entry_of
from roboco.domain.usage_table import UsageRow, UsageTable
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.engine.usage import task_usage
from roboco.errors import CorruptHistory, Forbidden, UsageError
from tests.support.memory_ports.world import World, world_parts
from tests.unit.client.operator.test_what_if import RUN, SHOP, ended_world, start_runs, with_prompt
from tests.unit.engine.accept.test_retry_task import failed_world

Turn = tuple[str, str, int, int]
"""An agent, a model, tokens and the hours after the turn before."""
TURNS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["small", "=large"]), st.integers(0, 99), st.integers(0, 40)),
    max_size=6,
)


def new_world() -> World:
    """Return a world without tasks, whose index is complete."""
    world = World(world_parts(lambda request: None))
    rebuild_index(world.engine, 10)
    return world


def append(world: World, task_id: str, turns: Iterable[Turn], start: datetime | None = None) -> list[TaskStep]:
    """Append turns to the history of a task, and return all of its steps."""
    steps = list(world.histories.read(task_id))
    time = start or (steps[-1].created_at if steps else world.engine.now() - timedelta(days=20))
    for agent, model, tokens, hours in turns:
        time += timedelta(hours=hours)
        step = TaskStep(
            step_id=step_id_at(task_id, len(steps)),
            seq=len(steps),
            agent_name=agent,
            parts=({"type": "text", "text": "x"},),
            created_at=time,
            metadata={"model": model, "usage": {"tokens_in": tokens, "tokens_out": 1, "cost": tokens / 1000}},
        ).sealed(steps[-1].digest if steps else "")
        steps.append(world.histories.append(task_id, step))
    return steps


def enter(world: World, task_id: str, status: TaskStatus = TaskStatus.COMPLETED, **fields: Any) -> None:
    """Store the summary of the task, as a coordinator does, and enter it in the index."""
    steps = list(world.histories.read(task_id))
    times = {"created_at": steps[0].created_at, "updated_at": steps[-1].created_at} if steps else {}
    now = {"created_at": world.engine.now(), "updated_at": world.engine.now()}
    summary = TaskSummary.model_validate(
        {"task_id": task_id, "team": "desk", "status": status, "steps": len(steps), **now, **times, **fields}
    )
    world.files.put(summary_path(task_id), summary.model_dump_json().encode())
    world.engine.tasks.task_index.put([entry_of(summary)])


def report(world: World, by: str = "tenant", own: str | None = None, **options: Any) -> UsageSummary:
    """Return a report."""
    collector = UsageCollector(world.engine, own, by, {**options})  # type: ignore[typeddict-item]
    tasks = list(collector.collect())
    found = collector.report()
    assert found.tasks == (tasks[-1] if tasks else 0)
    return found


def rows(found: UsageSummary, *names: str) -> list[tuple[Any, ...]]:
    """Return these fields of each row."""
    return [tuple(getattr(row, name) for name in names) for row in found.rows]


@settings(deadline=None, max_examples=40)
@given(st.lists(TURNS, max_size=5), st.data())
def test_a_report_is_the_sum_over_all_steps_while_histories_grow(tasks: list[list[Turn]], data: st.DataObject) -> None:
    world = new_world()
    everything: dict[str, list[TaskStep]] = {}
    for number, turns in enumerate(tasks):
        task_id = f"acme:t{number}" if number % 2 else f"t{number}"
        if turns:
            everything[task_id] = append(world, task_id, turns)
            enter(world, task_id, data.draw(st.sampled_from([TaskStatus.COMPLETED, TaskStatus.RUNNING])))
    for _ in range(2):
        for by in ("tenant", "agent,model", "day"):
            found = report(world, by)
            steps = [step for of_task in everything.values() for step in of_task]
            assert found.total.tokens == sum(sum(_tokens(step)) for step in steps)
            assert round(found.total.cost * 1000) == sum(_tokens(step)[0] for step in steps)
            assert found.total.turns == len(steps) == sum(row.turns for row in found.rows)
            assert found.complete
        days = {(row.day, row.turns) for row in report(world, "day").rows}
        assert days == {
            (day, sum(step.created_at.date().isoformat() == day for step in steps))
            for day in {step.created_at.date().isoformat() for step in steps}
        }
        for task_id in everything:  # the open ones continue
            if not world.engine.workspace.summaries.require(task_id).status.ended:
                everything[task_id] = append(world, task_id, [("a", "small", 7, 0)])


def _tokens(step: TaskStep) -> tuple[int, int]:
    used = step.metadata["usage"]
    return used["tokens_in"], used["tokens_out"]


@pytest.mark.parametrize("data", [b"", b"{", b'{"task_id":"other","steps":2}', b'{"task_id":"t1","steps":9}'])
def test_a_broken_or_foreign_file_is_computed_again(data: bytes) -> None:
    world = new_world()
    append(world, "t1", [("a", "small", 5, 0)] * 2)
    enter(world, "t1")
    world.files.put(usage_path("t1"), data)
    assert report(world).total.turns == 2
    assert world.files.get(usage_path("t1")) not in (data, None)


def test_a_task_with_a_broken_history_is_named_and_the_report_is_not_complete() -> None:
    world = new_world()
    append(world, "t1", [("a", "small", 5, 0)])
    enter(world, "t1", steps=3)
    append(world, "t2", [("a", "small", 5, 0)])
    enter(world, "t2")
    found = report(world)
    assert (found.total.turns, found.complete, found.tasks) == (1, False, 1)
    assert "the history of task 't1' has 1 steps, and its summary 3" in found.problems[0]
    with pytest.raises(CorruptHistory):
        task_usage(world.engine.workspace, "t1", 3)


def test_the_conditions_choose_days_teams_and_tenants() -> None:
    world = new_world()
    today = world.engine.now().date()
    yesterday = today - timedelta(days=1)
    noon = datetime.combine(yesterday, datetime.min.time(), UTC) + timedelta(hours=12)
    for task_id, start in (("acme:t1", noon), ("t2", noon), ("t3", noon - timedelta(days=9))):
        append(world, task_id, [("a", "small", 5, 0), ("a", "small", 7, 24)], start)
        enter(world, task_id, team="other" if task_id == "t2" else "desk", updated_at=world.engine.now())
    assert report(world, since=yesterday, until=yesterday).total.turns == 2
    assert report(world, since=today).total.tokens_in == 14
    assert rows(report(world, "team", since=yesterday), "team", "turns") == [("desk", 2), ("other", 2)]
    assert report(world, team="other").total.turns == 2
    assert rows(report(world), "tenant", "turns") == [("", 4), ("acme", 2)]
    assert report(world, tenant="").total.turns == 4
    assert rows(report(world, own="acme"), "tenant", "turns") == [("acme", 2)]
    with pytest.raises(Forbidden):
        report(world, own="acme", tenant="other")
    with pytest.raises(UsageError, match="is before since"):
        report(world, since=today, until=yesterday)


def test_tasks_that_have_left_the_index_are_reported_as_missing_and_read_from_the_workspace() -> None:
    world = new_world()
    for number in range(3):
        append(world, f"t{number}", [("a", "small", 5, number)])
        enter(world, f"t{number}")
    append(world, "acme:t4", [("a", "small", 5, 9)])
    enter(world, "acme:t4", TaskStatus.RUNNING)
    assert world.engine.tasks.task_index.trim(world.engine.now() - timedelta(days=30), 1, 100) == 2
    found = report(world)
    assert (found.total.turns, found.complete) == (2, False)
    assert "have left the task index" in found.problems[0]
    assert report(world, since=world.engine.now().date()).complete
    whole = report(world, all_tasks=True)
    assert (whole.total.turns, whole.complete, whole.tasks) == (4, True, 4)
    assert report(world, own="acme", all_tasks=True).total.turns == 1
    assert report(world, all_tasks=True, since=world.engine.now().date()).tasks == 1


def test_runs_of_what_if_and_retried_tasks_count_what_they_ran_themselves() -> None:
    """A run counts neither the shared steps nor the calls that did not run; a retry counts its own turns."""
    world = ended_world()
    start_runs(world, team=with_prompt("You are new."))
    world.settle(RUN)
    found = {(row.team, row.tool): row for row in report(world, "team,tool", all_tasks=True).rows}
    shop = SHOP.name
    assert {name: row.calls for name, row in found.items() if row.calls} == {
        (shop, "weather"): 1,
        (shop, "mark"): 1,
        (shop, "pay"): 1,
        (f"{shop} (what-if)", "weather"): 1,
    }
    assert (found[shop, ""].turns, found[f"{shop} (what-if)", ""].turns) == (2, 2)
    retried = failed_world()
    before = report(retried, "team", all_tasks=True).total
    new = retried.retry(by="ops", reason="once more")
    retried.settle(new)
    after, summary = report(retried, "team", all_tasks=True).total, retried.summary(new)
    assert after.turns == before.turns + 1
    assert (after.tokens_in, after.tokens_out) == (summary.tokens_in, summary.tokens_out)


def test_no_name_of_a_model_controls_the_terminal_that_shows_a_report() -> None:
    world, name = new_world(), "\x1b]0;owned\x07\x9b2J\u202e\n=gr\u00f6\u00dfe"
    append(world, "t1", [("a", name, 5, 0)])
    enter(world, "t1")
    found = report(world, "model")
    assert "\\u001b]0;owned\\u0007\\u009b2J\\u202e\\n=gr\u00f6\u00dfe" in "".join(csv_lines(found))
    lines = list(json_lines(found))
    assert json.loads(lines[0])["model"] == name
    assert all(line.removesuffix("\n").isprintable() for line in lines)


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\t", "\r", " =", "\n=", "\u3000=", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_no_cell_of_a_text_begins_with_a_sign_of_a_formula(sign: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = UsageSummary(
        by=("agent",),
        first_day=now.date(),
        last_day=now.date(),
        as_of=now,
        rows=[UsageRow(agent=f"{sign}1+1")],
        total=UsageRow(),
        tasks=1,
        complete=True,
        problems=[],
    )
    shown = sign if sign.isprintable() else json.dumps(sign)[1:-1]
    assert list(csv.reader(StringIO("".join(csv_lines(found)), newline="")))[1][0] == f"'{shown}1+1"


def test_a_table_has_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roboco.domain.usage_table.MAX_ROWS", 3)
    world, numbers = new_world(), count()
    append(world, "t1", [("a", f"m{next(numbers)}", 1, 0) for _ in range(4)])
    usage = task_usage(world.engine.workspace, "t1", None)
    UsageTable(("agent",)).add("desk", usage)
    with pytest.raises(UsageError, match="more than 3 rows"):
        UsageTable(("model",)).add("desk", usage)


def test_a_day_is_a_date_or_a_number_of_days_ago() -> None:
    today = date(2026, 3, 1)
    assert [parse_day(text, today) for text in ("2026-01-31", "1d", "0d")] == [
        date(2026, 1, 31),
        date(2026, 2, 28),
        today,
    ]
    for text in ("yesterday", "d", "99999999d", "2026-02-30", "-1d"):
        with pytest.raises(UsageError, match="cannot be read: write YYYY-MM-DD"):
            parse_day(text, today)
