"""submit: a task is accepted once, and whole or not at all."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.inbox.submission import Submission
from roboco.domain.paths import team_path
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.accept import accept_task
from roboco.engine.coordinate.submit import submit
from roboco.errors import CorruptHistory, UsageError
from tests.support.memory_ports.dispatcher import AdvanceMessage, TurnMessage
from tests.support.memory_ports.journeys import GRAPH, SEQUENTIAL, member
from tests.support.memory_ports.world import TASK, World, team_of


def submission_of(team: Team, **changes: Any) -> Submission:
    return Submission.model_validate({"task_id": TASK, "team": team.name, "prompt": "go"} | changes)


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


def test_a_stop_before_the_submission_is_applied() -> None:
    world = GRAPH.world()
    world.stop()
    world.submit(GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert [step.agent_name for step in world.history()] == ["user", "orchestrator"]
    assert not world.given.model.requests


def test_the_prompts_of_a_team_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_task, "TEAM_SECONDS", 0.0)
    world = SEQUENTIAL.world()
    many = team_of(agents=[{"name": f"a{n}", "prompt": "{{ task.id }}"} for n in range(2)])
    with pytest.raises(UsageError, match="prompt of agent 'a1': the templates up to here take more than 0 seconds"):
        submit(world.engine, submission_of(many, task_id="many"), many)
