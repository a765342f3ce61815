"""Whether a task stays at rest: an accepted item that ends its wait counts before a worker applies it."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from roboco.domain.history.part import ToolOutcome, ToolResult, successful_outcome
from roboco.domain.inbox.item import LimitChange
from roboco.domain.limits import Limits
from roboco.domain.status import TaskStatus
from roboco.domain.team.validation import validate_team
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.accept.at_rest import stays_at_rest
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import PortCall, make_call
from tests.support.memory_ports.world import TASK, World, world_parts
from tests.support.selection import in_parts
from tests.unit.engine.accept.test_resolve import resolve, world_with_unknown_outcome
from tests.unit.engine.test_external_calls import ASK, FUNCTIONS, TEAM, calls_of, world_with_calls

Act = Callable[[World], None]


def user_turn() -> World:
    return MANUAL.at_rest()


def paused() -> World:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.pause()
    world.settle()
    return world


def approval() -> World:
    return world_with_calls(("pay", {"amount": 5}), ("pay", {"amount": 6}))


def client_tool_turn() -> World:
    return world_with_calls(("client_ask", {"q": 1}), ("client_ask", {"q": 2}))


def decide(number: int, approved: bool) -> Act:
    return lambda world: world.decide_approval(calls_of(world)[number].id, approved)


def answer(*numbers: int) -> Act:
    def act(world: World) -> None:
        for number in numbers:
            world.answer(successful_outcome(calls_of(world)[number], {"n": number}))

    return act


def raise_limits(world: World) -> None:
    item = LimitChange(item_id="raise1", created_at=world.engine.now(), limits={"max_steps": 90})
    accept_item(world.engine, TASK, item)


def is_at_rest(world: World) -> bool:
    """Return the answer for a client, whose process has no state of the task."""
    return stays_at_rest(world.process(), world.summary())


def unknown() -> World:
    return world_with_unknown_outcome(2)


def paused_with_calls() -> World:
    world = approval()
    world.pause("pause0")
    decide(0, True)(world)
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    return world


def at_limit() -> World:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team.model_copy(update={"limits": Limits(max_steps=2, at_limit="pause")}))
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    return world


CONTINUING: list[tuple[Callable[[], World], Act]] = [
    (user_turn, lambda world: world.send("more", agent="helper")),
    (user_turn, lambda world: world.stop()),
    (paused, lambda world: world.resume()),
    (paused, lambda world: world.step()),
    (paused, raise_limits),
    (paused_with_calls, lambda world: world.step()),
    (at_limit, raise_limits),
    (approval, decide(0, True)),
    (unknown, resolve),
    (client_tool_turn, answer(0, 1)),
]


@pytest.mark.parametrize(("begin", "act"), CONTINUING)
def test_an_accepted_item_ends_the_wait(begin: Callable[[], World], act: Act) -> None:
    world = begin()
    status = world.status()
    assert is_at_rest(world)
    act(world)
    assert world.status() is status, "no worker has applied it"
    assert not is_at_rest(world)
    world.settle()
    assert is_at_rest(world)


def test_a_resumption_counts_until_the_work_is_recorded() -> None:
    """A worker removes it from the inbox, with its pauses, before that."""
    world, found = paused(), list[bool]()
    summary = world.summary()

    def watch(name: str, call: PortCall) -> Any:
        if world.server.held.tasks[TASK].status is TaskStatus.PAUSED:
            world.watch = make_call
            found.append(stays_at_rest(world.process(), summary))
            world.watch = watch
        return call()

    world.resume()
    world.watch = watch
    world.settle()
    assert len(found) > 3
    assert not any(found)


ACTS: list[Callable[[World, Random, str], None]] = [
    lambda world, random, name: world.send("more", name, agent="lead"),
    lambda world, random, name: world.interrupt("stop that", name, agent="lead"),
    lambda world, random, name: world.halt(name),
    lambda world, random, name: world.pause(name),
    lambda world, random, name: world.step(name),
    lambda world, random, name: world.resume(name),
    lambda world, random, name: world.decide_approval(any_call(world, random), random.random() < 0.5),
    lambda world, random, name: world.answer(
        ToolOutcome(result=ToolResult(tool_call_id=any_call(world, random), result=1))
    ),
    lambda world, random, name: accept_item(
        world.engine, TASK, LimitChange(item_id=name, created_at=world.engine.now(), limits={"max_steps": 90})
    ),
    lambda world, random, name: world.drain(),
    lambda world, random, name: world.sweep(),
]


def any_call(world: World, random: Random) -> str:
    """Return the id of a call of the task, open or not."""
    calls = [call for step in world.history() for call in step.calls]
    return random.choice(calls).id if calls else "tc_none"


@in_parts
@pytest.mark.parametrize("seed", range(12))
def test_a_task_that_rests_never_seems_to_continue(seed: int, part: int) -> None:
    """Else the wait for its result would not end. Random items arrive in any order, also between two moves."""
    random = Random(12 * part + seed)

    def script(request: Request) -> ScriptedReply:
        names: list[tuple[str, Any]] = [("pay", {"amount": 5}), ("client_ask", {"q": 1}), ("add", {"a": 1, "b": 2})]
        return says("calling", *random.choices(names, k=random.randint(0, 3)))

    world = World(world_parts(script, FUNCTIONS))
    limits = {"max_steps": random.choice([6, 12, 40]), "at_limit": "pause"}
    model = {"type": random.choice(["manual", "sequential"])}
    team = validate_team(
        TEAM.model_dump(mode="json", exclude_defaults=True) | {"limits": limits, "collaboration_model": model}
    )
    world.submit(team, client_tools=[ASK])
    for number in range(12):
        for part in range(random.randint(1, 3)):
            with suppress(UsageError):  # the call is not open, or the task has ended
                random.choice(ACTS)(world, random, f"item{number}-{part}")
        world.settle()
        assert is_at_rest(world), (number, world.summary(), world.pending_item_ids())
