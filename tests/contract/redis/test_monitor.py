"""The monitor of `roboco top` on Redis: the usage of rate limits."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from roboco.cli.top.sampler import Sampler
from roboco.client.orchestrator import Orchestrator
from roboco.domain.team.model_profile import ModelLimits
from roboco.local.valkey import ValkeyServer
from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.rate_limits import Admitted, Ticket
from roboco.ports.snapshot import TurnProgress
from roboco.redis.monitor import RedisMonitor
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts
from roboco.settings import Settings
from roboco.team_files.file import parse_team
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK
from tests.support.stack import until


def test_the_usage_of_a_rate_limit_is_the_sum_of_its_slots(redis_task: TaskOnRedis) -> None:
    profile = {"model": "m", "requests_per_minute": 10, "tokens_per_minute": 1000}
    team = parse_team({"name": "desk", "models": {"m": profile}, "agents": [{"name": "one", "prompt": "hi"}]})
    limiter = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, ModelLimits())
    for number in range(3):
        ticket = Ticket(f"t{number}", team.name, "1/1/0")
        assert limiter.reserve(team.models["m"], ticket, 100) == Admitted()
        limiter.record_usage(team.models["m"], ticket, 50)
    monitor = RedisMonitor(redis_task.client, redis_task.keys, ModelLimits())
    until(lambda: monitor.rates([("t0", team)])[0].tokens == 150, 5, "the tokens are recorded, a moment later")
    (usage,) = monitor.rates([("t0", team)])
    assert (usage.requests, usage.max_requests) == (3, 10)
    assert (usage.tokens, usage.max_tokens) == (150, 1000)
    assert (usage.waiting, usage.pause_left) == (0, 0)


def test_limits_of_the_operator_are_listed_without_a_task(redis_task: TaskOnRedis) -> None:
    limits = ModelLimits(("m=10/1000", "other@https://model.example/v1=5"))
    team = parse_team({"name": "desk", "models": {"m": {"model": "m"}}, "agents": [{"name": "one", "prompt": "hi"}]})
    limiter = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, limits)
    limiter.reserve(team.models["m"], Ticket("t1", team.name, "1/1/0"), 100)
    limiter.pause(team.models["m"], "", 30)
    monitor = RedisMonitor(redis_task.client, redis_task.keys, limits)
    idle = {one.model: one for one in monitor.rates((), all_of_operator=True)}
    assert {name: (one.requests, one.max_requests) for name, one in idle.items()} == {"m": (1, 10), "other": (0, 5)}
    busy = {one.model: one for one in monitor.rates([("t0", team)], all_of_operator=True)}
    assert busy.keys() == idle.keys()
    assert 0 < busy["m"].pause_left <= 30
    assert busy["other"].pause_left == 0
    assert [one.model for one in monitor.rates([("t0", team)])] == ["m"]


def test_top_names_a_model_that_sends_nothing(redis_task: TaskOnRedis, valkey: ValkeyServer, tmp_path: Path) -> None:
    redis_task.create()
    redis_task.record_decision()
    lease = redis_task.claim().lease
    redis_task.schedule.schedule_no_later_than(TASK, 0)
    settings = Settings(redis_url=valkey.url, prefix=redis_task.keys.prefix, workspace=tmp_path.as_uri())
    for silence, reason in ((5, ""), (30, "model 'm' at http://x has sent nothing for 30 s; the limit is 60 s")):
        note = TurnProgress("'m' at http://x", 1, 1, time.time() - silence, 60.0).to_json()
        assert redis_task.renewals.renew([replace(lease, note=note)]) == [LeaseStatus.HELD]
        with closing(Orchestrator(settings)) as orchestrator, closing(Sampler(orchestrator)) as sampler:
            [row] = sampler.sample(5).tasks
        assert (row.task.working, row.task.reason) == (True, reason)
