"""Rate limits of providers: turns beyond them are deferred, occupy no worker, and never fail."""

from functools import partial
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.domain.team.model_profile import ModelLimits
from roboco.errors import ModelError
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.rates import MemoryRates
from tests.support.memory_ports.world import SWEEP_INTERVAL, World, team_of, world_parts

TOKENS_PER_MINUTE = 600


class Provider:
    """A model server that records the times and the tokens of its requests."""

    def __init__(self) -> None:
        self.world: World
        self.requests: list[tuple[float, int]] = []
        self.refusals: list[float | None] = []

    def __call__(self, request: Any) -> ScriptedReply:
        if self.refusals:
            return ScriptedReply(error=ModelError("rate_limit", "at its limit", True, self.refusals.pop(0)))
        self.requests.append((self.world.clock.now(), 80))
        return ScriptedReply(("text",), tokens=(60, 20))

    def max_tokens_in_a_minute(self) -> int:
        times = [time for time, _ in self.requests]
        return max(sum(tokens for at, tokens in self.requests if start <= at < start + 60) for start in times)


def submit_tasks(tasks: int, **profile: Any) -> tuple[World, Provider]:
    provider = Provider()
    world = provider.world = World(world_parts(provider))
    team = team_of(
        agents=[{"name": "one", "prompt": "hi"}],
        models={"m": {"model": "m", "max_tokens": 40} | profile},
    )
    for number in range(tasks):
        world.submit(team, task_id=f"t{number}")
    return world, provider


def settle(world: World, tasks: int) -> None:
    for _ in range(600):
        world.drain()
        if all(world.is_settled(f"t{number}") for number in range(tasks)):
            break
        world.clock.move(SWEEP_INTERVAL)
        world.sweep()
    for number in range(tasks):
        assert world.summary(f"t{number}").status is TaskStatus.COMPLETED
        assert world.summary(f"t{number}").steps == 2


def test_twenty_turns_stay_within_the_tokens_of_every_minute() -> None:
    world, provider = submit_tasks(20, tokens_per_minute=TOKENS_PER_MINUTE)
    settle(world, 20)
    assert len(provider.requests) == 20
    one_request = 80
    assert TOKENS_PER_MINUTE - one_request <= provider.max_tokens_in_a_minute() <= TOKENS_PER_MINUTE + one_request


def test_the_tokens_of_a_reply_replace_its_estimate_in_the_operators_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ModelLimits((f"m=/{TOKENS_PER_MINUTE}",))
    monkeypatch.setattr("tests.support.memory_ports.world.MemoryRates", partial(MemoryRates, limits=limits))
    world, _ = submit_tasks(1)
    settle(world, 1)
    (bucket,) = world.server.held.buckets.values()
    assert [request.tokens for request in bucket.made.values()] == [80]


def test_deferred_and_stopped_tasks_slow_no_other_tenant_and_no_later_task() -> None:
    provider = Provider()
    world = provider.world = World(world_parts(provider))
    team = team_of(
        agents=[{"name": "one", "prompt": "hi"}],
        models={"m": {"model": "m", "max_tokens": 40, "requests_per_minute": 1}},
    )
    for number in range(30):
        world.submit(team, task_id=f"acme:t{number}")
    world.drain()
    world.submit(team, task_id="globex:t")
    world.drain()
    assert world.summary("globex:t").status is TaskStatus.COMPLETED
    waiting = [name for name, task in world.server.held.tasks.items() if task.deferral[0] == task.epoch]
    for name in waiting:
        world.stop(task_id=name)
    world.drain()
    assert len(provider.requests) == 2
    assert not any(bucket.waits for bucket in world.server.held.buckets.values())
    start = world.clock.now()
    world.submit(team, task_id="acme:later")
    for _ in range(600):
        world.drain()
        if world.is_settled("acme:later"):
            break
        world.clock.move(SWEEP_INTERVAL)
        world.sweep()
    assert provider.requests[-1][0] - start <= 61


def test_a_stopped_task_releases_the_reservation_of_its_summary() -> None:
    world, _ = submit_tasks(0)
    team = team_of(
        agents=[{"name": "one", "prompt": "hi", "context": {"strategy": "summary", "steps": 2, "model": "sums"}}],
        models={
            "m": {"model": "m", "default": True},
            "sums": {"model": "sums", "tokens_per_minute": 1},
        },
        collaboration_model={"type": "sequential", "rounds": 8},
    )
    world.submit(team, task_id="t0")
    world.submit(team, task_id="t1")
    world.drain()
    waits = [name for bucket in world.server.held.buckets.values() for name in bucket.waits]
    assert waits
    assert all(name[2:].startswith("/summary/") for name in waits)
    for task_id in ("t0", "t1"):
        world.stop(task_id=task_id)
    world.drain()
    assert not any(bucket.waits for bucket in world.server.held.buckets.values())
