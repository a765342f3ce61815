"""Sub-tasks: work that an agent delegates to another team."""

from typing import Any

import pytest

from roboco.domain.ids import sub_task_id
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.accept import accept_item
from roboco.engine.coordinate import delegate
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def team(**fields: Any) -> Team:
    """Return a team whose lead delegates to two others."""
    helpers = {"name": "helpers", "agents": [member("helper")], "collaboration_model": {"type": "manual"}}
    writers = {"name": "writers", "agents": [member("one"), member("two")], "limits": {"max_tokens": 1000}}
    return team_of(
        **{
            "agents": [member("lead", delegates=["helpers", "writers"])],
            "teams": {"helpers": helpers, "writers": writers},
        }
        | fields
    )


def script(request: Request) -> ScriptedReply:
    if speaker(request) != "lead":
        return says(f"{speaker(request)} did: {request.messages[1]['content']}")
    if own_turns(request) > 0:
        return says("all together")
    delegated = [{"team": "helpers", "prompt": "look it up"}, {"team": "writers", "prompt": "write it"}]
    return says("you two", *(("delegate", one) for one in delegated))


def with_open_sub_tasks(of: Team | None = None) -> World:
    """Return a world whose agent has delegated work that no worker has claimed yet."""
    world = World(world_parts(script))
    world.submit(of or team())
    for _ in range(3):
        world.deliver(world.dispatcher.queue.popleft())
    return world


def children(world: World) -> list[str]:
    return [sub_task_id(TASK, call.id) for call in world.history()[1].calls]


def run_to_end(world: World) -> World:
    for task_id in (TASK, *children(world)):
        world.settle(task_id)
    return world


def test_sub_tasks_share_the_limits_of_the_parent() -> None:
    world = with_open_sub_tasks(team(limits={"max_steps": 10, "max_tokens": 600, "max_seconds": 100}))
    for child, tokens in zip(children(world), (292, 292), strict=True):
        limits = world.engine.workspace.frozen_teams.get(child).limits
        assert (limits.max_steps, limits.max_tokens) == (8, tokens)
        assert limits.max_seconds is not None
        assert 99 < limits.max_seconds < 100
    free = world = with_open_sub_tasks()
    assert [free.engine.workspace.frozen_teams.get(child).limits.max_tokens for child in children(world)] == [
        None,
        1000,
    ]


def test_a_full_inbox_of_a_sub_task_does_not_keep_its_parent_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_open_sub_tasks()
    for limit in ("MAX_ITEMS", "MAX_CONTROLS"):
        monkeypatch.setattr(accept_item, limit, 0)
    call, child = world.history()[1].calls[0], children(world)[0]
    with pytest.raises(UsageError, match="at most 0 may wait"):
        world.stop(task_id=child)
    delegate.stop_sub_task(world.engine, TASK, call, "not needed")
    run_to_end(world)
    assert world.summary(child).status is TaskStatus.CANCELLED


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"team": "absent", "prompt": "x"}, "you cannot delegate to 'absent'; possible teams: helpers, writers"),
        ({"team": "helpers"}, "'prompt' must be a text"),
        ({"team": "helpers", "prompt": " "}, "'prompt' must be a text"),
        ({"team": "helpers", "prompt": "x" * 300_000}, "the sub-task could not be started: prompt: has 300000"),
    ],
)
def test_the_agent_reads_a_wrong_call_of_delegate_as_an_error(arguments: dict[str, Any], error: str) -> None:
    def wrong_call(request: Request) -> ScriptedReply:
        return says("", ("delegate", arguments)) if own_turns(request) == 0 else says("well")

    world = World(world_parts(wrong_call))
    world.submit(team())
    world.settle()
    assert error in str(world.history()[2].results[0].error)
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_lost_result_of_a_sub_task_is_fetched() -> None:
    world = with_open_sub_tasks()
    world.watch = lambda name, call: None if name == "files.create" and _is_result(call) else call()
    for child in children(world):
        world.settle(child)
    world.watch = lambda name, call: call()
    assert not world.pending_item_ids()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def _is_result(call: Any) -> bool:
    return "/inbox/answer-" in call.args[0]
