"""The usage of the day is that of the caller that has created the task, whatever its first step is."""

from typing import Any

import pytest

from roboco.domain.inbox.submission import parse_submission
from roboco.engine.coordinator.submit import submit
from roboco.engine.intake.fork import ForkRequest, fork
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.world import TASK, World

TALK = [{"role": "user", "text": "Who are you?"}, {"role": "assistant", "text": "An expert."}]


def settled(**options: Any) -> World:
    """Return a world in which a task of alice has made a turn."""
    world = MANUAL.world()
    submission = {"task_id": TASK, "team": "desk", "prompt": "go", "by": "alice"} | options
    submit(world.engine, parse_submission(submission), MANUAL.team)
    world.settle()
    return world


def tokens_of(world: World, by: str) -> int:
    """Return the tokens that the caller has used today."""
    own, _ = world.engine.daily_usage.today("", by)
    return own.tokens


@pytest.mark.parametrize("history", [[], TALK])
def test_usage_is_that_of_the_caller_also_after_imported_messages(history: list[dict[str, Any]]) -> None:
    assert tokens_of(settled(history=history), "alice") > 0


def test_usage_of_a_fork_is_that_of_the_caller_that_has_forked_the_task() -> None:
    world = settled()
    before = tokens_of(world, "alice")
    fork(world.engine, ForkRequest(TASK, "branch", 0, by="bob"))
    world.settle("branch")
    assert world.history("branch")[-1].by_agent
    assert (tokens_of(world, "alice"), tokens_of(world, "bob") > 0) == (before, True)
