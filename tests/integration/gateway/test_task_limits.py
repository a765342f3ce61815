"""Open tasks and the usage of a day: counted where steps are committed, and checked before a task or message."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from roboco import parse_team
from roboco.domain.usage import DayUsage, day_of
from roboco.errors import TransientError
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem
from roboco.local.valkey import ValkeyServer
from tests.support.gateway_auth import AuthWorld, auth_world
from tests.support.memory_ports.model import says

TEAM = parse_team(
    {
        "name": "desk",
        "models": {"m": {"model": "small", "price_in": 1.0, "price_out": 2.0, "default": True}},
        "agents": [{"name": "writer", "prompt": "write"}],
    }
)
CALLER = Principal("key:one", "acme", frozenset(Scope))


@pytest.fixture
def world(tmp_path: Path, valkey: ValkeyServer) -> Iterator[AuthWorld]:
    """Yield a gateway."""
    with auth_world(tmp_path, {"redis_url": valkey.url, "prefix": f"test-{uuid4().hex[:12]}"}) as made:
        yield made


def caller(**limits: float) -> Principal:
    """Return a caller with these limits."""
    return replace(CALLER, limits=CALLER.limits.model_validate(limits))


def refusal(work: Any) -> Any:
    """Return the Problem of the work, or None."""

    async def run() -> Problem | None:
        try:
            await work
        except Problem as problem:
            return problem
        return None

    return asyncio.run(run())


def run_task(world: AuthWorld, task_id: str, by: str | None = "key:one") -> int:
    """Run a task to its end, and return its tokens."""
    options: dict[str, Any] = {} if by is None else {"by": by}
    world.world.submit(TEAM, task_id=task_id, **options)
    world.world.settle(task_id)
    summary = world.orchestrator.stored_summary(task_id)
    assert summary is not None
    return summary.tokens_in + summary.tokens_out


def usage(world: AuthWorld, by: str | None = None) -> DayUsage:
    """Return the usage of the day, of the tenant or a caller."""
    return world.orchestrator._engine.services.rate_limiter.spent("acme", day_of(world.world.engine.now()), by)


def test_the_usage_of_a_task_is_that_of_its_caller_and_tenant(world: AuthWorld) -> None:
    first, second = run_task(world, "acme:t1"), run_task(world, "acme:t2", "key:two")
    run_task(world, "acme:t3", None)
    own = usage(world, "key:one")
    assert own.tokens == first > 0
    assert own.cost > 0
    assert usage(world).tokens == first + second
    assert usage(world, "key:three").tokens == 0


def test_ended_tasks_make_room_and_open_ones_do_not(world: AuthWorld) -> None:
    limits, own = world.gateway.limits, caller(open_tasks=2)
    for task_id in ("acme:t1", "acme:t2"):
        assert refusal(limits.create_task(own, task_id)) is None
    world.world.submit(TEAM, task_id="acme:t1", by="key:one")
    assert refusal(limits.create_task(own, "acme:t2")) is None  # the same request again
    refused = refusal(limits.create_task(own, "acme:t3"))
    assert (refused.status, refused.extra["limit"]) == (429, "open_tasks")
    world.world.settle("acme:t1")
    assert refusal(limits.create_task(own, "acme:t3")) is None
    assert refusal(limits.create_task(own, "acme:t4")) is not None


def test_usage_that_cannot_be_stored_does_not_fail_the_turn(world: AuthWorld) -> None:
    world.world.given.model.script = lambda _: says("fine")
    world.world.watch = fail_usage(world.world.watch)
    assert run_task(world, "acme:t1") > 0
    assert not world.world.server.held.day_usages


def fail_usage(before: Any) -> Any:
    """Return a watch under which each write of usage fails."""

    def watch(name: str, call: Any) -> Any:
        if name == "rates.count_day":
            raise TransientError("redis does not answer")
        return before(name, call)

    return watch
