"""Bulk controls: one control of many tasks, over the ports in memory."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.client.operator import bulk as bulk_module
from roboco.client.operator.bulk import PARALLEL, Bulk, bulk_item_id
from roboco.client.operator.bulk_control import BulkReport
from roboco.domain.paths import summary_path
from roboco.domain.status import TaskStatus
from roboco.domain.task_filter import TaskFilter
from roboco.errors import TransientError, UsageError
from roboco.ports.task_index import Rebuild
from tests.support.gateway_rest import RestWorld, rest_world


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestWorld]:
    """Yield an empty deployment, whose workers run when a test settles a task."""
    with rest_world(tmp_path) as started:
        with started.world.server as held:
            held.scans[Rebuild] = Rebuild("r", "i", all_listed=True)
        yield started


def submit(rest: RestWorld, *names: str) -> list[str]:
    """Create a task of tenant acme for each name, one second after the other, and return their ids."""
    found = []
    for name in names:
        answer = rest.post("/v1/tasks", {"team": "desk", "prompt": "work", "task_id": f"acme:{name}"})
        assert answer.status_code == 201, answer.text
        rest.world.clock.move(1)
        found.append(f"acme:{name}")
    return found


def bulk(rest: RestWorld, control: Any = "stop", **options: Any) -> Bulk:
    """Return a bulk control of the tasks of tenant acme."""
    return rest.orchestrator.bulk(control, **{"tenant": "acme", "rate": 1000.0, **options})


def move_to_front(rest: RestWorld, task_id: str) -> None:
    """Change the task in the index now: it waits for its user."""
    index, now = rest.world.engine.tasks.task_index, rest.world.engine.now()
    [entry] = [one for one in index.page(TaskFilter()).entries if one.task_id == task_id]
    update = {"status": TaskStatus.USER_TURN, "updated_at": now, "epoch": entry.epoch + 1}
    index.put([entry.model_copy(update=update)])


def outcomes(*pages: BulkReport) -> dict[str, str]:
    """Return the outcome of each task of these pages."""
    return {one.task_id: one.outcome for page in pages for one in page.outcomes}


def items(rest: RestWorld, task_id: str) -> list[str]:
    """Return the items of bulk controls that the task has stored."""
    return [path for path in rest.world.files.held if path.startswith(f"{task_id}/") and "/b_" in path]


def test_each_task_of_the_conditions_gets_the_control_on_some_page(rest: RestWorld) -> None:
    other = rest.run("other:x", caller="other", conversation=True)
    tasks = submit(rest, *"abcde")
    run = bulk(rest)
    assert run.count().matching == 5
    pages = list(run.pages(limit=2))
    assert outcomes(*pages) == dict.fromkeys(tasks, "accepted")
    assert [len(page.outcomes) for page in pages] == [2, 2, 1]
    assert items(rest, other) == []
    for task_id in tasks:
        rest.world.settle(task_id)
        summary = rest.orchestrator.task(task_id).summary()
        assert (summary.status, summary.reason) == ("cancelled", "stopped by an operator")


def test_a_run_that_is_resumed_sends_no_task_its_item_twice(rest: RestWorld) -> None:
    tasks = submit(rest, *"abcde")
    first = next(bulk(rest, "pause", by="key:night").pages(limit=2))
    resumed = bulk(rest, "pause", bulk_id=first.bulk_id, until=first.until)
    rest.world.clock.move(1)
    [late] = submit(rest, "late")
    pages = list(resumed.pages(limit=2))
    assert outcomes(*pages) == dict.fromkeys(tasks, "accepted") | dict.fromkeys(outcomes(first), "repeated")
    assert {page.bulk_id for page in pages} == {first.bulk_id}
    again = list(bulk(rest, "pause", bulk_id=first.bulk_id).pages(limit=2))
    assert outcomes(*again) == dict.fromkeys(tasks, "repeated") | {late: "accepted"}
    for task_id in tasks:
        assert len(items(rest, task_id)) == 1
    item = bulk_item_id(first.bulk_id, "acme:e")
    assert rest.orchestrator.task("acme:e").receipt(item).by == "key:night"


def test_tasks_whose_server_is_silent_end_the_run_which_can_be_resumed(rest: RestWorld) -> None:
    tasks = submit(rest, *(f"t{number:02}" for number in range(PARALLEL + 4)))
    run = bulk(rest)
    first = run.page(limit=4)

    def fail(name: str, call: Any) -> Any:
        if name.startswith("files"):
            raise TransientError("the store is silent")
        return call()

    before, rest.world.watch = rest.world.watch, fail
    with pytest.raises(TransientError, match=f"{PARALLEL} tasks have failed, .* the store is silent"):
        run.page(first.cursor)
    assert {one.outcome for one in run.page(first.cursor, limit=4).outcomes} == {"failed"}
    rest.world.watch = before
    assert outcomes(first, run.page(first.cursor)) == dict.fromkeys(tasks, "accepted")


def test_a_single_page_leaves_tasks_that_have_changed_since_the_beginning(rest: RestWorld) -> None:
    tasks = submit(rest, *"abcd")
    first = bulk(rest).page(limit=2)
    rest.world.clock.move(1)
    move_to_front(rest, "acme:a")
    [late] = submit(rest, "late")
    found = outcomes(first, bulk(rest, bulk_id=first.bulk_id, until=first.until).page(first.cursor))
    assert found == dict.fromkeys(tasks[1:], "accepted")
    assert outcomes(bulk(rest, bulk_id=first.bulk_id).page()) == {
        "acme:a": "accepted",
        late: "accepted",
    } | dict.fromkeys(tasks[1:], "repeated")


def test_a_count_has_parts(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_module, "MAX_LIMIT", 2)
    submit(rest, *"abc")
    run = bulk(rest)
    first = run.count()
    second = run.count(first.cursor)
    assert (first.matching, bool(first.cursor)) == (2, True)
    assert (second.matching, second.cursor, second.until) == (1, "", first.until)
    assert len(outcomes(*run.pages())) == 3


def test_a_broken_task_in_the_middle_fails_alone_and_its_outcome_has_the_cause(rest: RestWorld) -> None:
    tasks = submit(rest, *"abc")
    rest.world.files.held[summary_path("acme:b")] = b"poison"
    rest.world.histories.held["acme:b"] = [b"poison"]
    found = {one.task_id: one for page in bulk(rest).pages() for one in page.outcomes}
    assert {name: one.outcome for name, one in found.items()} == dict.fromkeys(tasks, "accepted") | {"acme:b": "failed"}
    assert found["acme:b"].code == "corrupt_history"
    assert "task.json' cannot be read" in found["acme:b"].cause


def test_a_wrong_option_is_refused_before_anything_is_sent(rest: RestWorld) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("stop", {"tenant": None}, "no condition"),
        ("stop", {"tenant": None, "what_if": False}, "no condition"),
        ("stop", {"status": "ended"}, "stop concerns open tasks alone"),
        ("stop", {"limits": {"max_steps": 5}}, "stop takes no limits"),
        ("retry", {"status": "open"}, "retry concerns failed tasks alone"),
        ("limits", {}, "limits needs limits"),
        ("limits", {"limits": {"max_steps": "many"}}, "max_steps"),
        ("stop", {"bulk_id": "../x"}, "item id"),
        ("stop", {"rate": 0}, "rate 0"),
    ]
    submit(rest, "a")
    for control, options, message in wrong:
        with pytest.raises(UsageError, match=message):
            bulk(rest, control, **options)
    assert items(rest, "acme:a") == []


def test_a_tenants_client_reaches_its_own_tasks_alone(rest: RestWorld) -> None:
    submit(rest, "a")
    rest.orchestrator.settings = rest.orchestrator.settings.model_copy(update={"tenant": "other"})
    with pytest.raises(UsageError, match="alone"):
        bulk(rest)
    assert bulk(rest, tenant=None, all_tasks=True).count().matching == 0


def test_the_rate_of_a_run_holds_across_its_pages(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    submit(rest, *"abcd")
    list(bulk(rest, rate=4).pages(limit=3))
    assert waits == [0.25] * 4


def test_a_task_that_changes_meanwhile_gets_its_item_and_a_new_one_does_not(rest: RestWorld) -> None:
    tasks = submit(rest, *"abcd")
    pages = bulk(rest).pages(limit=2)
    first = next(pages)
    rest.world.clock.move(1)
    move_to_front(rest, "acme:a")
    [late] = submit(rest, "late")
    assert outcomes(first, *pages) == dict.fromkeys(tasks, "accepted")
    assert items(rest, late) == []
