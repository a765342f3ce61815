"""The worker registry: live workers, their modules, and one workspace for all."""

import pytest

from roboco.ports.registry import NO_LOAD, POOLS, PoolStatus, Registration, WorkerLoad, WorkspaceIdentity
from roboco.redis.worker_registry import WORKER_TTL
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
    assert registry.register(Registration(("agents", "tools"), ("shop", "bank"), WORKSPACE_A), False) is None
    assert task.registry("w2").register(Registration(("tools",), (), WORKSPACE_A), False) is None
    client = task.registry("")
    listed = {one.name: one.modules for one in client.pool_status("tools", 10).workers}
    assert listed == {"w1": ("shop", "bank"), "w2": ()}
    silence = client.seconds_since_registration()
    assert silence["coordinator"] is None
    assert silence["agents"] is not None
    assert 0 <= silence["agents"] < 60


def test_the_status_of_a_pool_has_the_latest_workers_with_their_loads(task: TaskUnderTest) -> None:
    load = WorkerLoad(3, ("t/0001/turn/1", "t/0002/tool/tc_1/1"))
    task.registry("w1").register(Registration(("tools",), ("shop",), WORKSPACE_A, load), False)
    task.pass_time(SHORT_LIFETIME)
    task.registry("w2").register(Registration(("tools", "agents"), (), WORKSPACE_A), False)
    seen = task.registry("").pool_status("tools", 10)
    assert [(one.name, one.load) for one in seen.workers] == [("w2", NO_LOAD), ("w1", load)]
    assert (seen.live, seen.registered) == (2, 2)
    assert seen.workers[1].silent_for >= SHORT_LIFETIME
    assert [one.name for one in task.registry("").pool_status("tools", 1).workers] == ["w2"]
    assert task.registry("").pool_status("coordinator", 10) == PoolStatus(0, 0, [])
    task.pass_time(SHORT_LIFETIME)
    seen = task.registry("", SHORT_LIFETIME).pool_status("tools", 10)
    assert (seen.live, seen.registered) == (0, 2)
    task.registry("w1").register(Registration(("tools",), ("shop",), WORKSPACE_A), False)
    assert task.registry("").pool_status("tools", 1).workers[0].load == NO_LOAD


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_with_another_workspace_than_a_live_coordinator_is_refused(task: TaskUnderTest, pool: str) -> None:
    assert task.registry("c").register(Registration(("coordinator",), (), WORKSPACE_A), False) is None
    assert task.registry("").workspace() == WORKSPACE_A
    assert task.registry("w").register(Registration((pool,), (), WORKSPACE_B), False) == WORKSPACE_A
    assert task.registry("").workspace() == WORKSPACE_A
    assert "w" not in [one.name for one in task.registry("").pool_status(pool, 10).workers]
    assert task.registry("w").register(Registration((pool,), (), WorkspaceIdentity("a", "another name")), False) is None


def test_a_workspace_is_replaced_without_live_coordinators_and_open_tasks(task: TaskUnderTest) -> None:
    task.registry("c").register(Registration(("coordinator",), (), WORKSPACE_B), False)
    task.pass_time(SHORT_LIFETIME)
    assert (
        task.registry("d", SHORT_LIFETIME).register(Registration(("coordinator",), (), WORKSPACE_A), True)
        == WORKSPACE_B
    ), "tasks are open"
    assert task.registry("d", SHORT_LIFETIME).register(Registration(("coordinator",), (), WORKSPACE_A), False) is None
    assert task.registry("").workspace() == WORKSPACE_A


@pytest.mark.redis
def test_silent_workers_are_removed_after_a_day(redis_task: TaskOnRedis) -> None:
    redis_task.registry("old").register(Registration(("tools",), ("shop",), WORKSPACE_A), False)
    key = redis_task.keys.workers("tools")
    redis_task.client.zadd(key, {"old": redis_task.schedule.time() - WORKER_TTL - 1})
    assert redis_task.registry("").seconds_since_registration()["tools"] is None
    redis_task.registry("new").register(Registration(("tools",), (), WORKSPACE_A), False)
    assert redis_task.client.zrange(key, 0, -1) == ["new"]
    assert redis_task.client.hkeys(redis_task.keys.modules("tools")) == ["new"]
