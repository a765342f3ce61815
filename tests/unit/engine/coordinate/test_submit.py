"""submit: a task is accepted once, and whole or not at all."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roboco.domain.inbox.submission import Submission
from roboco.domain.paths import open_marker_path, summary_path, team_path
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.accept import accept_task
from roboco.engine.accept.accept_task import accept_and_wake
from roboco.engine.coordinate.submit import submit
from roboco.engine.engine import Engine
from roboco.errors import CorruptHistory, UsageError
from tests.support.memory_ports.dispatcher import AdvanceMessage, TurnMessage
from tests.support.memory_ports.journeys import GRAPH, MANUAL, SEQUENTIAL, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.sweeping import sweep
from tests.support.memory_ports.watch import Crash, Fault, make_call
from tests.support.memory_ports.world import POLICY, TASK, World, team_of, world_parts


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


def test_the_user_may_name_the_first_agent() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team, agent="expert")
    world.settle()
    assert [step.agent_name for step in world.history()] == ["user", "expert"]
    assert world.history()[1].metadata["routing"]["rule"] == "named"


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


def test_another_team_under_the_same_id_is_refused() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    with pytest.raises(UsageError, match=r"task_1.*submitted before with another team"):
        submit(world.engine, submission_of(SEQUENTIAL.team), SEQUENTIAL.team)
    world.settle()
    assert [step.agent_name for step in world.history()] == ["user"] + ["writer", "critic"] * 3


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


def test_two_tasks_do_not_affect_each_other() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team, task_id="a")
    world.submit(GRAPH.team, "other", task_id="b")
    world.settle("a")
    world.settle("b")
    assert [step.text for step in world.history("a")][1:] == [step.text for step in world.history("b")][1:]
    assert {step.step_id for step in world.history("a")}.isdisjoint(step.step_id for step in world.history("b"))


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


def test_a_repeated_submission_after_a_loss_of_redis_restarts_the_stream() -> None:
    """During the first turn, so that followers hold text of it that is void afterwards."""
    world = GRAPH.world()

    def watch(name: str, call: Any) -> Any:
        if name == "histories.append" and len(world.published()) > 5:
            raise Crash
        return call()

    world.watch = watch
    world.submit(GRAPH.team)
    world.drain()
    assert world.published()[-1]["type"] == "content_chunk"
    world.watch = make_call
    world.server.wipe()
    world.submit(GRAPH.team)
    world.settle()
    generations = [record["generation"] for record in world.published()]
    first_of_generation = world.published()[generations.index(generations[-1])]
    assert first_of_generation["type"] == "event_stream_reset"
    assert read_items(items_of(world.published(), partial(world.histories.read, TASK))).steps == world.history()


def test_a_stop_before_the_submission_is_applied() -> None:
    world = GRAPH.world()
    world.stop()
    world.submit(GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert [step.agent_name for step in world.history()] == ["user", "orchestrator"]
    assert not world.given.model.requests


def test_a_stop_before_the_submission_survives_a_crash_of_the_client() -> None:
    for n in range(1, len(calls_of(lambda world: world.submit(GRAPH.team))) + 1):
        world = GRAPH.world()
        world.stop()
        world.watch = fault = Fault(n, crash, after=True)
        world.submit(GRAPH.team)
        world.settle()
        assert world.summary().status is TaskStatus.CANCELLED, f"died after {fault.seen[:n]}"


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_stop_during_the_submission_is_applied(moment: int) -> None:
    """The stop's port call number `moment` is made after a complete submission."""
    world = GRAPH.world()
    seen: list[str] = []

    def watch(name: str, call: Any) -> Any:
        seen.append(name)
        if len(seen) == moment:
            world.watch = make_call
            world.submit(GRAPH.team)
            world.watch = watch
        return call()

    world.watch = watch
    world.stop()
    world.watch = make_call
    world.submit(GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("seconds", [POLICY.redelivery_delay / 2, 3 * POLICY.redelivery_delay, -1.0])
def test_a_task_whose_marker_is_stored_late_is_in_the_schedule(seconds: float, at_once: bool) -> None:
    """The sweeper has removed its entry, because there was no marker. Its first message is lost later."""
    world = GRAPH.world()

    def delay_marker(name: str, call: Any) -> Any:
        if (
            name == "files.create"
            and summary_path(TASK) in world.files.held
            and open_marker_path(TASK) not in world.files.held
        ):
            world.watch = make_call
            world.clock.move(seconds)
            sweep(world.process(), world.server)
        return call()

    world.watch = delay_marker
    world.submit(GRAPH.team, at_once=at_once)
    world.dispatcher.queue.clear()
    assert world.server.held.schedule[TASK] <= world.clock.now() + POLICY.redelivery_delay + 1
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


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


def test_of_two_submissions_at_the_same_time_one_has_created_the_task() -> None:
    winners = set[str]()
    for number in range(1, 30):
        world, count = MANUAL.world(), 0
        created: dict[str, bool] = {}

        def watch(
            name: str, call: Any, world: World = world, number: int = number, created: dict[str, bool] = created
        ) -> Any:
            nonlocal count
            count += 1
            if count == number:
                world.watch = make_call
                world.clock.move(0.001)
                created["second"] = submit(world.process(), submission_of(MANUAL.team), MANUAL.team)
            return call()

        world.watch = watch
        created["first"] = submit(world.process(), submission_of(MANUAL.team), MANUAL.team)
        world.watch = make_call
        if "second" in created:
            assert sorted(created.values()) == [False, True]
            winners.update(name for name, value in created.items() if value)
    assert winners == {"first", "second"}
