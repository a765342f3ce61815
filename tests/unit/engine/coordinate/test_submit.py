"""submit: a task is accepted once, and whole or not at all."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.inbox.submission import Submission
from roboco.domain.paths import open_marker_path, team_path
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.accept import accept_task
from roboco.engine.accept.accept_task import accept_and_wake
from roboco.engine.coordinate.submit import submit
from roboco.engine.engine import Engine
from roboco.errors import CorruptHistory, UsageError
from tests.support.memory_ports.dispatcher import AdvanceMessage, TurnMessage
from tests.support.memory_ports.journeys import GRAPH, SEQUENTIAL, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash, Fault
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def crash() -> None:
    raise Crash


def submission_of(team: Team, **changes: Any) -> Submission:
    return Submission.model_validate({"task_id": TASK, "team": team.name, "prompt": "go"} | changes)


def test_the_first_step_contains_the_prompt() -> None:
    world = SEQUENTIAL.world()
    submission = submission_of(SEQUENTIAL.team, prompt="write", context={"tone": "dry"}, agent="second")
    accept_and_wake(world.engine, submission, SEQUENTIAL.team)
    [first] = world.history()
    assert (first.agent_name, first.text, first.seq, first.prev_digest) == ("user", "write", 0, "")
    assert first.metadata == {"submission": submission.digest(), "context": {"tone": "dry"}, "agent": "second"}
    assert world.summary().status is TaskStatus.QUEUED
    types = [record["type"] for record in world.published()]
    assert types == ["event_task_start", "event_user_message", "event_step_end"]


@pytest.mark.parametrize("moments", [0, 1, 5, 1000])
def test_a_repeated_submission_changes_nothing(moments: int) -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    for _ in range(moments):
        if world.dispatcher.queue:
            world.deliver(world.dispatcher.queue.popleft())
    before = world.history()
    world.clock.move(100)
    world.submit(GRAPH.team)
    assert world.history() == before
    world.settle()
    assert [step.agent_name for step in world.history()] == ["user"] + ["writer", "critic"] * 3
    assert world.summary().status is TaskStatus.COMPLETED
    assert len(world.given.model.requests) == 6


@pytest.mark.parametrize("changes", [{"prompt": "other"}, {"context": {"a": 1}}, {"agent": "critic"}])
def test_other_content_under_the_same_id_is_refused(changes: dict[str, Any]) -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    with pytest.raises(UsageError, match=r"task_1.*submitted before with another prompt"):
        submit(world.engine, submission_of(GRAPH.team, **changes), GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.history()[0].text == "go"


def _change_stored_team(world: World, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(world.files.held[team_path(TASK)])
    change(data)
    world.files.held[team_path(TASK)] = json.dumps(data, indent=1).encode()


def test_a_team_that_was_stored_by_a_release_with_fewer_fields_is_the_same() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    _change_stored_team(world, lambda data: [data.pop(name) for name in ("if_busy", "limits", "teams")])
    world.submit(GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    _change_stored_team(world, lambda data: data.update(if_busy="reject"))
    with pytest.raises(UsageError, match=r"task_1.*submitted before with another team"):
        world.submit(GRAPH.team)


def test_the_error_for_a_team_of_a_newer_release_names_the_cause() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    _change_stored_team(world, lambda data: data.update(a_field_to_come=1))
    world.submit(GRAPH.team)
    _change_stored_team(world, lambda data: data["collaboration_model"].update(type="to_come"))
    world.engine = world.process()
    with pytest.raises(CorruptHistory, match=r"task_1/team.json cannot be read.*before 0.1.0 or of a newer one"):
        world.submit(GRAPH.team)


@pytest.mark.parametrize(
    ("team", "changes", "error"),
    [
        (SEQUENTIAL.team, {"task_id": "../x"}, "task id '../x' is not allowed"),
        (SEQUENTIAL.team, {"task_id": "_open"}, "task id '_open' is not allowed"),
        (SEQUENTIAL.team, {"agent": "third"}, "no agent 'third' in team 'desk', possible are first, second"),
        (team_of(agents=[{"name": "a", "prompt": "{{ context.tone }}"}]), {}, "prompt of agent 'a': .*tone"),
    ],
)
def test_a_wrong_submission_stores_nothing(team: Team, changes: dict[str, Any], error: str) -> None:
    world = SEQUENTIAL.world()
    with pytest.raises(UsageError, match=error):
        submit(world.engine, submission_of(team, **changes), team)
    assert not world.files.held
    assert not world.histories.held
    assert not world.server.published
    assert not world.dispatcher.queue


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {}, TurnMessage),
        ({}, {"countdown": 60.0}, AdvanceMessage),  # it starts later
        (
            {"collaboration_model": {"type": "custom", "router": "shop.routers:mine"}},
            {},
            AdvanceMessage,
        ),  # a user's code
    ],
)
def test_the_client_dispatches_the_first_turn_if_it_starts_now_and_no_custom_router_decides(
    changes: dict[str, Any], options: dict[str, Any], message: type
) -> None:
    world = GRAPH.world()
    world.submit(team_of(**{"agents": [member("first")]} | changes), at_once=True, **options)
    assert [type(sent) for sent in world.dispatcher.queue] == [message]


def calls_of(act: Callable[[World], object]) -> list[str]:
    count = Fault(10**9, crash)
    act(GRAPH.world(count))
    return count.seen


@pytest.mark.parametrize("accept", [accept_and_wake, submit])
def test_an_accepted_task_is_completed_if_the_client_dies_at_any_port_call(
    accept: Callable[[Engine, Submission, Team], object],
) -> None:
    """Once the marker is written, the task is accepted, and no client has to submit it again."""
    at_once = accept is submit
    for n in range(1, len(calls_of(lambda world: world.submit(GRAPH.team, at_once=at_once))) + 1):
        fault = Fault(n, crash, after=True)
        world = GRAPH.world(fault)
        with pytest.raises(Crash):
            accept(world.engine, submission_of(GRAPH.team), GRAPH.team)
        if open_marker_path(TASK) in world.files.held:
            world.settle()
            assert world.summary().status is TaskStatus.COMPLETED, f"the client died after {fault.seen}"


def test_a_stop_before_the_submission_is_applied() -> None:
    world = GRAPH.world()
    world.stop()
    world.submit(GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert [step.agent_name for step in world.history()] == ["user", "orchestrator"]
    assert not world.given.model.requests


def test_prompts_are_rendered_with_task_team_agent_and_context() -> None:
    prompt = (
        "{{ task.id }} {{ task.prompt }} {{ team.name }} {{ team.agents[0].name }} {{ agent.name }} {{ context.n }}"
    )
    team = team_of(agents=[member("one") | {"prompt": prompt}])
    world = World(world_parts(lambda request: says("done")))
    submit(world.engine, submission_of(team, context={"n": 7}), team)
    world.settle()
    assert world.given.model.requests[0].messages[0] == {"role": "system", "content": "task_1 go desk one one 7"}


def test_the_prompts_of_a_team_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_task, "TEAM_SECONDS", 0.0)
    world = SEQUENTIAL.world()
    many = team_of(agents=[{"name": f"a{n}", "prompt": "{{ task.id }}"} for n in range(2)])
    with pytest.raises(UsageError, match="prompt of agent 'a1': the templates up to here take more than 0 seconds"):
        submit(world.engine, submission_of(many, task_id="many"), many)
