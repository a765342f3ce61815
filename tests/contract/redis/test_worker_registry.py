"""The worker registry: live workers, their modules, and one workspace for all."""

import pytest

from roboco.adapters.redis.worker_registry import WORKER_TTL
from roboco.ports.registry import POOLS, WorkspaceIdentity
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest

SHORT_LIFETIME = 0.03
"""Seconds for which a registration is live."""
WORKSPACE_A, WORKSPACE_B = WorkspaceIdentity("a", "file:///a"), WorkspaceIdentity("b", "s3://b/x y")


def test_a_worker_registers_in_its_pools_with_its_modules(task: TaskUnderTest) -> None:
    registry = task.registry("w1")
    assert registry.node_name == "w1"
    assert registry.workspace() is None
    assert registry.seconds_since_registration() == dict.fromkeys(POOLS)
    assert registry.register(("agents", "tools"), ("shop", "bank"), WORKSPACE_A, False) is None
    assert task.registry("w2").register(("tools",), (), WORKSPACE_A, False) is None
    client = task.registry("")
    assert client.modules("agents") == {"w1": {"shop", "bank"}}
    assert client.modules("tools") == {"w1": {"shop", "bank"}, "w2": frozenset()}
    silence = client.seconds_since_registration()
    assert silence["coordinator"] is None
    assert silence["agents"] is not None
    assert 0 <= silence["agents"] < 60


def test_a_worker_that_stops_registering_is_no_longer_live(task: TaskUnderTest) -> None:
    task.registry("w1").register(("tools",), ("shop",), WORKSPACE_A, False)
    task.pass_time(SHORT_LIFETIME)
    assert task.registry("w2", SHORT_LIFETIME).modules("tools") == {}
    silent = task.registry("").seconds_since_registration()["tools"]
    assert silent is not None
    assert silent >= SHORT_LIFETIME


def test_the_last_registration_of_a_worker_replaces_its_modules(task: TaskUnderTest) -> None:
    registry = task.registry("w1")
    registry.register(("tools",), ("shop",), WORKSPACE_A, False)
    registry.register(("tools",), ("bank",), WORKSPACE_A, False)
    assert registry.modules("tools") == {"w1": {"bank"}}


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_with_another_workspace_than_a_live_coordinator_is_refused(task: TaskUnderTest, pool: str) -> None:
    assert task.registry("c").register(("coordinator",), (), WORKSPACE_A, False) is None
    assert task.registry("").workspace() == WORKSPACE_A
    assert task.registry("w").register((pool,), (), WORKSPACE_B, False) == WORKSPACE_A
    assert task.registry("").workspace() == WORKSPACE_A
    assert "w" not in task.registry("").modules(pool)
    assert task.registry("w").register((pool,), (), WorkspaceIdentity("a", "another name"), False) is None


def test_a_workspace_is_replaced_without_live_coordinators_and_open_tasks(task: TaskUnderTest) -> None:
    task.registry("c").register(("coordinator",), (), WORKSPACE_B, False)
    task.pass_time(SHORT_LIFETIME)
    assert task.registry("d", SHORT_LIFETIME).register(("coordinator",), (), WORKSPACE_A, True) == WORKSPACE_B, (
        "tasks are open"
    )
    assert task.registry("d", SHORT_LIFETIME).register(("coordinator",), (), WORKSPACE_A, False) is None
    assert task.registry("").workspace() == WORKSPACE_A


def test_a_restarted_coordinator_may_register_another_workspace(task: TaskUnderTest) -> None:
    task.registry("c").register(("coordinator",), (), WORKSPACE_A, False)
    assert task.registry("c").register(("coordinator",), (), WORKSPACE_B, False) is None
    assert task.registry("").workspace() == WORKSPACE_B


def test_workers_of_other_pools_register_no_workspace(task: TaskUnderTest) -> None:
    assert task.registry("w").register(("agents", "tools"), (), WORKSPACE_A, False) is None
    assert task.registry("").workspace() is None


@pytest.mark.redis
def test_silent_workers_are_removed_after_a_day(redis_task: TaskOnRedis) -> None:
    redis_task.registry("old").register(("tools",), ("shop",), WORKSPACE_A, False)
    key = redis_task.keys.workers("tools")
    redis_task.client.zadd(key, {"old": redis_task.schedule.time() - WORKER_TTL - 1})
    assert redis_task.registry("").seconds_since_registration()["tools"] is None
    redis_task.registry("new").register(("tools",), (), WORKSPACE_A, False)
    assert redis_task.client.zrange(key, 0, -1) == ["new"]
    assert redis_task.client.hkeys(redis_task.keys.modules("tools")) == ["new"]
