"""Sub-tasks: work that an agent gives to another team."""

from collections import Counter
from typing import Any

import pytest

from roboco.domain.history.step import verify_chain
from roboco.domain.ids import sub_task_id
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.coordinator import delegate
from roboco.engine.intake import accept_item as receiving
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole, member, own_turns, speaker
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.watch import Fault
from tests.support.memory_ports.world import TASK, World, given, team_of
from tests.unit.engine.test_receive import die


def team(**fields: Any) -> Team:
    """A team whose lead gives work to two others."""
    helpers = {"name": "helpers", "agents": [member("helper")], "collaboration_model": {"type": "manual"}}
    writers = {"name": "writers", "agents": [member("one"), member("two")], "limits": {"max_tokens": 1000}}
    return team_of(
        **{
            "agents": [member("lead", delegates=["helpers", "writers"])],
            "teams": {"helpers": helpers, "writers": writers},
        }
        | fields
    )


def script(request: Request) -> Said:
    if speaker(request) != "lead":
        return said(f"{speaker(request)} did: {request.messages[1]['content']}")
    if own_turns(request) > 0:
        return said("all together")
    given_away = [{"team": "helpers", "prompt": "look it up"}, {"team": "writers", "prompt": "write it"}]
    return said("you two", *(("delegate", one) for one in given_away))


def begun(of: Team | None = None) -> World:
    """A task whose agent has given work away, which nobody has begun."""
    world = World(given(script))
    world.submit(of or team())
    for _ in range(3):
        world.deliver(world.dispatcher.queue.popleft())
    return world


def children(world: World) -> list[str]:
    return [sub_task_id(TASK, call.id) for call in world.history()[1].calls]


def finished(world: World) -> World:
    for task_id in (TASK, *children(world)):
        world.settle(task_id)
    return world


def test_another_team_does_the_work_as_a_task_of_its_own() -> None:
    world = finished(begun())
    helpers, writers = children(world)
    assert [step.text for step in world.history(helpers)] == ["look it up", "helper did: look it up"]
    assert [step.agent_name for step in world.history(writers)] == ["user", "one", "two"]
    lead = world.history()[1]
    for child in (helpers, writers):
        assert world.history(child)[0].parent_id == lead.step_id
        assert world.summary(child).status is TaskStatus.COMPLETED
    results = world.history()[2].results
    assert [result.result["text"] for result in results] == ["helper did: look it up", "two did: write it"]
    assert [result.result["task_id"] for result in results] == [helpers, writers]
    assert world.history()[3].text == "all together"
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")


def test_no_worker_is_held_and_they_run_side_by_side() -> None:
    world = begun()
    assert world.status() is TaskStatus.RUNNING
    queued = Counter(getattr(message, "task_id", "") for message in world.dispatcher.queue)
    assert set(queued) == set(children(world))


def test_the_parent_pays_for_its_children() -> None:
    world = finished(begun())
    own = sum(step.metadata["usage"]["tokens_in"] for step in world.history() if step.by_agent)
    theirs = sum(world.summary(child).tokens_in for child in children(world))
    assert theirs > 0
    assert world.summary().tokens_in == own + theirs


def test_limits_pass_down() -> None:
    world = begun(team(limits={"max_steps": 10, "max_tokens": 600, "max_seconds": 100}))
    for child, tokens in zip(children(world), (292, 292), strict=True):
        limits = world.engine.frozen_teams.get(child).limits
        assert (limits.max_steps, limits.max_tokens) == (8, tokens)
        assert limits.max_seconds is not None
        assert 99 < limits.max_seconds < 100
    free = world = begun()
    assert [free.engine.frozen_teams.get(child).limits.max_tokens for child in children(world)] == [None, 1000]


@pytest.mark.parametrize("act", ["stop", "interrupt"])
def test_who_ends_the_parents_wait_stops_the_children(act: str) -> None:
    world = begun()
    getattr(world, act)(*(["never mind"] if act == "interrupt" else []))
    finished(world)
    for child in children(world):
        assert world.summary(child).status is TaskStatus.CANCELLED
        assert "does not need the result any more" in world.summary(child).reason
    assert [result.is_error for result in world.history()[2].results] == [True, True]
    assert world.summary().status is (TaskStatus.CANCELLED if act == "stop" else TaskStatus.COMPLETED)
    assert_whole(world, "")


def test_a_full_inbox_of_a_child_does_not_keep_its_parent_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begun()
    for limit in ("MAX_ITEMS", "MAX_CONTROLS"):
        monkeypatch.setattr(receiving, limit, 0)
    call, child = world.history()[1].calls[0], children(world)[0]
    with pytest.raises(UsageError, match="at most 0 may wait"):
        world.stop(task_id=child)
    delegate.stop_sub_task(world.engine, TASK, call, "not needed")
    finished(world)
    assert world.summary(child).status is TaskStatus.CANCELLED


def test_a_child_that_fails_is_an_error_that_the_agent_reads() -> None:
    def failing(request: Request) -> Said:
        if speaker(request) == "helper":
            raise ZeroDivisionError
        return script(request)

    world = World(given(failing))
    world.submit(team())
    world.settle()
    first, second = world.history()[2].results
    assert "ended as failed" in str(first.error)
    assert not second.is_error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"team": "nobody", "prompt": "x"}, "you cannot delegate to 'nobody'; possible teams: helpers, writers"),
        ({"team": "helpers"}, "'prompt' must be a text"),
        ({"team": "helpers", "prompt": " "}, "'prompt' must be a text"),
        ({"team": "helpers", "prompt": "x" * 300_000}, "the sub-task could not be started: prompt: has 300000"),
    ],
)
def test_a_wrong_call_is_an_error_that_the_agent_reads(arguments: dict[str, Any], told: str) -> None:
    def wrong(request: Request) -> Said:
        return said("", ("delegate", arguments)) if own_turns(request) == 0 else said("well")

    world = World(given(wrong))
    world.submit(team())
    world.settle()
    assert told in str(world.history()[2].results[0].error)
    assert world.summary().status is TaskStatus.COMPLETED


def test_an_agent_without_delegates_cannot_delegate() -> None:
    world = World(given(lambda request: said("", ("delegate", {})) if own_turns(request) == 0 else said("well")))
    world.submit(team_of(agents=[member("lead")]))
    world.settle()
    assert "not on your list" in str(world.history()[2].results[0].error)


@pytest.mark.parametrize("after", [False, True])
def test_a_death_at_every_moment(after: bool) -> None:
    expected = [step.text for step in finished(begun()).history()]
    n, struck = 0, True
    while struck:
        n += 1
        world = begun()
        world.watch = fault = Fault(n, die, after=after)
        finished(world)
        struck = fault.struck
        assert [step.text for step in world.history()] == expected, n
        assert [result.is_error for result in world.history()[2].results] == [False, False], n
        assert_whole(world, f"{n}")
        for child in children(world):
            assert verify_chain(world.histories.lines(child)) == len(world.history(child))
    assert n > 60


def test_redis_is_lost_while_children_work() -> None:
    world = begun()
    world.server.wipe()
    world.sweep()
    finished(world)
    assert [result.is_error for result in world.history()[2].results] == [False, False]


def test_a_result_that_was_lost_on_its_way_is_fetched() -> None:
    world = begun()
    world.watch = lambda name, call: None if name == "files.create" and _is_answer(call) else call()
    for child in children(world):
        world.settle(child)
    world.watch = lambda name, call: call()
    assert not world.pending_item_ids()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def _is_answer(call: Any) -> bool:
    return "/inbox/answer-" in call.args[0]
