"""Rates of providers: turns that would go beyond them wait, hold no worker, and fail never."""

from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.errors import ModelError
from tests.support.memory_ports.model import Said
from tests.support.memory_ports.world import SWEEP_INTERVAL, World, given, team_of

LIMIT = 600


class Provider:
    """A model server that notes when it was asked, and for how many tokens."""

    def __init__(self) -> None:
        self.world: World
        self.asked: list[tuple[float, int]] = []
        self.refuse: list[float | None] = []

    def __call__(self, request: Any) -> Said:
        if self.refuse:
            return Said(error=ModelError("rate_limit", "at its limit", True, self.refuse.pop(0)))
        self.asked.append((self.world.clock.now(), 80))
        return Said(("text",), tokens=(60, 20))

    def most_in_a_minute(self) -> int:
        times = [time for time, _ in self.asked]
        return max(sum(tokens for at, tokens in self.asked if start <= at < start + 60) for start in times)


def begun(tasks: int, **profile: Any) -> tuple[World, Provider]:
    provider = Provider()
    world = provider.world = World(given(provider))
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
    world, provider = begun(20, tokens_per_minute=LIMIT)
    settle(world, 20)
    assert len(provider.asked) == 20
    one_request = 80
    assert LIMIT - one_request <= provider.most_in_a_minute() <= LIMIT + one_request


def test_requests_a_minute_are_kept() -> None:
    world, provider = begun(7, requests_per_minute=3)
    settle(world, 7)
    times = [time for time, _ in provider.asked]
    assert all(sum(1 for time in times if start <= time < start + 60) <= 3 for start in times)


def test_a_turn_that_waits_says_so_and_holds_nothing() -> None:
    world, _ = begun(2, requests_per_minute=1)
    world.drain()
    waiting = next(task for task in world.server.held.tasks.values() if task.deferral[0] == task.epoch)
    assert waiting.owner == ""
    assert waiting.reason == "one waits 60 s for the rate limit of model m"
    settle(world, 2)


def test_what_the_provider_says_holds_for_everybody() -> None:
    world, provider = begun(3)
    provider.refuse = [45.0]
    settle(world, 3)
    times = sorted(time for time, _ in provider.asked)
    assert times[0] - 1_800_000_000 >= 45


def test_refusals_without_a_time_are_tried_again_ever_later() -> None:
    world, provider = begun(1)
    provider.refuse = [None] * 4
    began = world.clock.now()
    settle(world, 1)
    assert provider.asked[0][0] - began >= 1 + 2 + 4 + 8


def test_a_turn_that_waits_can_be_stopped() -> None:
    world, provider = begun(2, requests_per_minute=1)
    world.drain()
    waiting = next(name for name, task in world.server.held.tasks.items() if task.deferral[0] == task.epoch)
    world.stop(task_id=waiting)
    world.drain()
    assert world.summary(waiting).status is TaskStatus.CANCELLED
    assert len(provider.asked) == 1


def test_tasks_that_wait_or_were_stopped_slow_no_other_tenant_and_no_later_task() -> None:
    provider = Provider()
    world = provider.world = World(given(provider))
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
    assert len(provider.asked) == 2
    assert not any(bucket.waits for bucket in world.server.held.buckets.values())
    began = world.clock.now()
    world.submit(team, task_id="acme:later")
    for _ in range(600):
        world.drain()
        if world.is_settled("acme:later"):
            break
        world.clock.move(SWEEP_INTERVAL)
        world.sweep()
    assert provider.asked[-1][0] - began <= 61


@pytest.mark.parametrize("act", ["stop", "interrupt"])
def test_who_wants_a_turn_to_end_while_it_is_given_back_does_not_wait(act: str) -> None:
    world, _ = begun(1)
    pause = ModelError("rate_limit", "at its limit", True, 500.0)

    def meanwhile() -> None:
        getattr(world, act)(*(["shorter"] if act == "interrupt" else []), task_id="t0")

    asked: list[Any] = []

    def script(request: Any) -> Said:
        asked.append(request)
        return Said(error=pause, meanwhile=meanwhile) if len(asked) == 1 else Said(("text",))

    world.given.model.script = script
    began = world.clock.now()
    world.drain()
    assert world.clock.now() - began < 5
    task = world.server.held.tasks["t0"]
    assert task.status is TaskStatus.CANCELLED if act == "stop" else task.seq >= 2


def test_a_refused_request_counts_and_its_turn_obeys_the_pause_too() -> None:
    world, provider = begun(1, requests_per_minute=2)
    provider.refuse = [0.1, 0.1, 0.1]
    settle(world, 1)
    assert provider.asked[0][0] - 1_800_000_000 > 60


def test_no_server_holds_everybody_back_for_ever() -> None:
    world, provider = begun(1)
    provider.refuse = [604_800.0]
    began = world.clock.now()
    world.drain()
    task = world.server.held.tasks["t0"]
    assert task.deferral[1] - began < 1000
    settle(world, 1)


def test_a_turn_that_has_waited_is_not_called_waiting_while_it_is_made() -> None:
    world, provider = begun(2, requests_per_minute=1)
    seen: list[str] = []
    world.given.model.script = lambda request: Said(
        ("text",), meanwhile=lambda: seen.extend(task.reason for task in world.server.held.tasks.values() if task.owner)
    )
    settle(world, 2)
    assert seen == ["", ""]
    assert provider.asked == []


def test_a_task_that_is_stopped_gives_up_the_place_of_its_summary() -> None:
    world, _ = begun(0)
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
