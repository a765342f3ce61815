"""Bulk decisions, messages and forks: each waiting call, task and fork gets them once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.client.operator.bulk import Bulk
from roboco.client.operator.bulk_control import BulkOutcome, CountedCalls
from roboco.domain.paths import summary_path
from roboco.errors import UsageError
from roboco.ports.task_index import Rebuild
from tests.support.gateway_rest import RestWorld, rest_world
from tests.support.memory_ports.model import says

CLIENT_TOOL = {"name": "client_map", "description": "shows a map", "input_schema": {"type": "object"}}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestWorld]:
    """Yield an empty deployment with a complete index."""
    with rest_world(tmp_path) as started:
        with started.world.server as held:
            held.scans[Rebuild] = Rebuild("r", "i", all_listed=True)
        yield started


def run(rest: RestWorld, name: str, *calls: tuple[str, Any], **fields: Any) -> str:
    """Run a task whose agent makes these calls, until it waits."""
    task_id = rest.run(f"acme:{name}", says("", *calls), conversation=True, **fields)
    rest.world.clock.move(1)
    return task_id


def bulk(rest: RestWorld, control: Any, **options: Any) -> Bulk:
    """Return a bulk control of the tasks of tenant acme."""
    return rest.orchestrator.bulk(control, **{"tenant": "acme", "rate": 1000.0, **options})


def outcomes(control: Bulk, limit: int = 50) -> dict[str, BulkOutcome]:
    """Run the control, and return the outcome of each task."""
    return {one.task_id: one for page in control.pages(limit=limit) for one in page.outcomes}


def test_all_waiting_calls_of_a_tool_are_approved_and_each_once(rest: RestWorld) -> None:
    first = run(rest, "a", ("ship", {}), ("ship", {}))
    second = run(rest, "b", ("ship", {"n": 1}))
    run(rest, "map", ("client_map", {}), client_tools=[CLIENT_TOOL])
    approve = bulk(rest, "approve", tool="ship", by="key:night")
    count = approve.count()
    assert (count.matching, count.cursor, count.unreadable) == (2, "", 0)
    assert count.tools == [CountedCalls(tool="ship", effect="pure", calls=3)]
    found = outcomes(approve, limit=1)
    assert {task_id: (one.outcome, len(one.calls)) for task_id, one in found.items()} == {
        first: ("accepted", 2),
        second: ("accepted", 1),
    }
    again = outcomes(bulk(rest, "approve", tool="ship", bulk_id=approve.bulk_id))
    assert again == {}
    assert outcomes(bulk(rest, "deny", tool="ship")) == {}
    rest.world.settle(first)
    results = [part for step in rest.orchestrator.task(first).history() for part in step.results]
    assert [(one.result, one.is_error) for one in results] == [({"shipped": True}, False)] * 2


def test_a_run_until_the_time_of_its_count_leaves_later_calls_however_often_it_is_repeated(
    rest: RestWorld,
) -> None:
    task_id = run(rest, "a", ("ship", {"n": 1}))
    count = bulk(rest, "approve", bulk_id="night").count()
    rest.replies = [says("", ("ship", {"n": 2})), says("done")]
    rest.world.clock.move(1)
    for decided in ([task_id], []):
        page = bulk(rest, "approve", bulk_id="night", until=count.until).page()
        assert [one.task_id for one in page.outcomes if one.outcome == "accepted"] == decided
    rest.world.settle(task_id)
    assert bulk(rest, "approve", bulk_id="night", until=count.until).page().outcomes == []
    assert len(rest.orchestrator.task(task_id).pending_actions().unapproved()) == 1


def test_a_task_whose_calls_cannot_be_read_is_counted_and_fails_alone(rest: RestWorld) -> None:
    task_id = run(rest, "a", ("ship", {"n": 1}))
    broken = run(rest, "b", ("ship", {"n": 1}))
    rest.world.files.held[summary_path(broken)] = b"poison"
    rest.world.histories.held[broken] = [b"poison"] * 3
    deny = bulk(rest, "deny", reason="not tonight")
    count = deny.count()
    assert (count.matching, count.unreadable) == (1, 1)
    found = outcomes(deny)
    assert (found[task_id].outcome, found[broken].code) == ("accepted", "corrupt_history")


def test_a_message_reaches_tasks_that_wait_for_their_user_once(rest: RestWorld) -> None:
    task_id = run(rest, "a")
    busy = run(rest, "b", ("ship", {"n": 1}))
    send = bulk(rest, "send", message="we are back")
    assert send.count().matching == 1
    assert {one.task_id: one.outcome for one in outcomes(send).values()} == {task_id: "accepted"}
    assert {
        one.outcome for one in outcomes(bulk(rest, "send", message="we are back", bulk_id=send.bulk_id)).values()
    } == {"repeated"}
    rest.world.settle(task_id)
    assert [step.text for step in rest.orchestrator.task(task_id).history() if step.agent_name == "user"][1:] == [
        "we are back"
    ]
    assert busy in outcomes(bulk(rest, "send", message="all", status="open"))


def test_each_task_is_forked_once_and_no_fork_is_forked(rest: RestWorld) -> None:
    tasks = [run(rest, name) for name in "ab"]
    fork = bulk(rest, "fork", message="again", by="key:night")
    found = outcomes(fork, limit=1)
    new = {one.task_id: one.new_task_id for one in found.values()}
    assert sorted(new) == tasks
    assert {one.outcome for one in found.values()} == {"accepted"}
    assert all(one.startswith("acme:fork-") for one in new.values())
    again = outcomes(bulk(rest, "fork", message="again", bulk_id=fork.bulk_id))
    assert {one.task_id: (one.outcome, one.new_task_id) for one in again.values()} == {
        task_id: ("repeated", name) for task_id, name in new.items()
    }
    for name in new.values():
        rest.world.settle(name)
        assert rest.orchestrator.task(name).history()[-2].text == "again"
    stopped = outcomes(bulk(rest, "stop", bulk_id=fork.bulk_id))
    assert {one.outcome for one in stopped.values()} == {"accepted"}
    assert sorted(stopped) == sorted([*tasks, *new.values()])


def test_a_fork_gets_another_team_and_other_content_under_its_id_fails(rest: RestWorld) -> None:
    task_id = run(rest, "a")
    fork = bulk(rest, "fork", new_team="lab")
    new_id = outcomes(fork)[task_id].new_task_id
    assert rest.orchestrator.task(new_id).team().name == "lab"
    failed = outcomes(bulk(rest, "fork", team="desk", bulk_id=fork.bulk_id))[task_id]
    assert (failed.outcome, failed.code, failed.new_task_id) == ("failed", "conflict", "")


def test_wrong_content_is_refused_before_anything_is_sent(rest: RestWorld) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("stop", {"tool": "ship"}, "stop takes no tool"),
        ("answer", {}, "answer needs a result"),
        ("answer", {"result": 1, "declined": True}, "answer needs a result"),
        ("resolve", {"happened": False, "result": 1}, "did not happen"),
        ("send", {"message": " "}, "must be a text that is not empty"),
        ("fork", {"agent": "writer"}, "it answers a message"),
        ("fork", {"new_team": "none"}, "no team 'none'"),
    ]
    for control, options, message in wrong:
        with pytest.raises(UsageError, match=message):
            bulk(rest, control, **options)


def test_a_call_that_is_made_after_the_count_is_left(rest: RestWorld) -> None:
    task_id = run(rest, "a", ("ship", {"n": 1}))
    approve = bulk(rest, "approve")
    assert approve.count().tools[0].calls == 1
    rest.replies = [says("", ("ship", {"n": 2})), says("done")]
    rest.world.clock.move(1)
    assert outcomes(approve)[task_id].outcome == "accepted"
    rest.world.settle(task_id)
    assert len(rest.orchestrator.task(task_id).pending_actions().unapproved()) == 1
    assert outcomes(approve) == {}
    assert len(rest.orchestrator.task(task_id).pending_actions().unapproved()) == 1
