"""Forks of forks, of failed tasks, and under used ids."""

from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.support.memory_ports.journeys import member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import World, team_of, world_parts
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.test_late_and_repeated_items import waiting_task


def test_a_fork_of_a_task_with_failed_goals_tries_again() -> None:
    goal = {"name": "answer", "description": "n", "schema": {"type": "object"}}
    for limit in (0, 2):
        world = World(world_parts(lambda request: says("no")))
        world.submit(team_of(agents=[member("a")], limits={"goal_prompts": limit}), goals=[goal])
        world.settle()
        before = len(world.given.model.requests)
        fork_task(world)
        world.settle(FORK)
        assert len(world.given.model.requests) == before + 1
        assert world.summary(FORK).status is TaskStatus.GOALS_FAILED


def test_a_fork_with_a_team_that_lacks_the_next_agent_waits_for_the_user() -> None:
    def script(request: Any) -> ScriptedReply:
        if speaker(request) == "writer" and own_turns(request) == 0:
            return says("take it", ("handoff", {"destination_agent": "editor", "reason": "x"}))
        return says("done")

    manual = {"type": "manual", "initial_agent": "writer"}
    world = World(world_parts(script))
    world.submit(team_of(agents=[member("writer", handoffs=["editor"]), member("editor")], collaboration_model=manual))
    world.settle()
    fork_task(world, 1, team=team_of(agents=[member("writer")], collaboration_model=manual))
    world.settle(FORK)
    assert world.status(FORK) is TaskStatus.USER_TURN


def test_a_repeated_fork_with_another_message_is_refused() -> None:
    world = waiting_task()
    fork_task(world)
    world.settle(FORK)
    with pytest.raises(UsageError, match="other content already"):
        fork_task(world, text="hey")
