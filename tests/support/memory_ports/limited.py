"""Journeys at limits: of the task, which a user raises, and of a model server, for which turns wait."""

from functools import partial

from roboco.domain.limits import LimitOverrides
from roboco.engine.accept.control import set_limits
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import Journey, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of


def _raise(world: World, item_id: str, steps: int) -> None:
    limits = LimitOverrides(max_steps=steps)
    world.retry_until_answered(lambda: set_limits(world.engine, TASK, limits, item_id))


def _script(request: Request) -> ScriptedReply:
    return says("the minutes" if "minutes" in str(request.messages[0]["content"]) else "a word")


LIMITED = {
    "limited": Journey(
        team_of(
            agents=[member("one", context={"strategy": "summary", "steps": 2})],
            collaboration_model={"type": "sequential", "rounds": 4},
            limits={"max_steps": 4, "at_limit": "pause"},
        ),
        _script,
        acts=(partial(_raise, item_id="raise1", steps=20),),
    ),
    "wrapped": Journey(
        team_of(
            agents=[member("one"), member("two")],
            collaboration_model={"type": "sequential", "rounds": 6},
            limits={"max_steps": 4, "at_limit": "wrap_up"},
        ),
        _script,
    ),
    "rated": Journey(
        team_of(
            agents=[member("one"), member("two")],
            models={"m": {"model": "m", "requests_per_minute": 1}},
        ),
        _script,
    ),
}
"""Journeys that always produce the same history."""
