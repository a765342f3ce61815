"""Only coordinators load Lua scripts. Other Redis users call them by hash, and wait while Redis holds none."""

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from roboco.broker.broker_scripts import BROKER_SCRIPTS
from roboco.errors import RobocoError
from roboco.redis.client import connect
from roboco.redis.scripts import Scripts, script_texts
from tests.support.journeys import GRAPH, answer, shape
from tests.support.redis_users import StackOfUsers, take_denials, url_of
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]
MISSING = "Redis does not hold Roboco's scripts of this release yet; a coordinator worker loads them"
WAITING = "cannot use the broker for now: it does not hold kombu's scripts yet"


@pytest.fixture(scope="module")
def acl_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with StackOfUsers(tmp_path_factory.mktemp("acl")) as stack:
        yield stack


@contextmanager
def without_scripts(stack: Stack) -> Iterator[None]:
    """Stop the coordinator and flush the scripts of Redis, as after a restart, until the block ends."""
    stack.kill("coordinator", signal.SIGSTOP)
    try:
        with redis.Redis.from_url(stack.valkey.url) as client:
            client.script_flush()
        yield
    finally:
        stack.kill("coordinator", signal.SIGCONT)


def holds_scripts(stack: Stack) -> bool:
    """Return True if Redis holds all scripts."""
    with connect(stack.valkey.url) as client:
        texts = (*script_texts().values(), *BROKER_SCRIPTS)
        return all(client.script_exists(*(client.register_script(text).sha for text in texts)))


def test_a_coordinator_has_loaded_all_scripts_when_it_is_ready(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=("coordinator",)) as stack:
        assert holds_scripts(stack)


def test_no_script_is_loaded_by_another_pool_while_a_coordinator_works(acl_stack: Stack) -> None:
    assert acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt).result(60).status == "completed"
    assert holds_scripts(acl_stack)
    assert take_denials(acl_stack) == set()


def test_a_task_completes_although_redis_loses_its_scripts(acl_stack: Stack) -> None:
    acl_stack.model.script(lambda request: Reply(text=answer(request).text, interval=0.2))
    try:
        task = acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
        next(item for item in task.stream() if item.type == "text_part_delta")
        before = acl_stack.log("agents").count(MISSING)
        with without_scripts(acl_stack):
            until(
                lambda: acl_stack.log("agents").count(MISSING) > before, 20, "an agents worker fails without a script"
            )
        assert task.result(60).status == "completed"
    finally:
        acl_stack.model.script(answer)
    assert shape(task.history()) == GRAPH.expected
    assert_only_loads_denied(acl_stack)


def test_workers_that_start_before_a_coordinator_wait_for_the_scripts(acl_stack: Stack) -> None:
    pools = ("agents", "tools")
    before = [acl_stack.log(pool).count(WAITING) for pool in pools]
    with without_scripts(acl_stack):
        for pool in pools:
            acl_stack.restart(pool)
        for pool, count in zip(pools, before, strict=True):
            until(lambda pool=pool, count=count: acl_stack.log(pool).count(WAITING) > count, 60, f"{pool} waits")  # type: ignore[misc]
    for pool in pools:
        acl_stack.wait_ready(pool)
    assert acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt).result(60).status == "completed"
    assert_only_loads_denied(acl_stack)


def assert_only_loads_denied(stack: Stack) -> None:
    """Raise AssertionError if Redis has denied another command than the loading of scripts."""
    assert {kind.partition(" ")[2] for kind in take_denials(stack)} <= {"toplevel command script|load"}


@pytest.mark.parametrize("window", ["0", "-1", "1e-300", "1e-9", "1e300", "nan"])
def test_no_rate_window_keeps_redis_busy(acl_stack: Stack, window: str) -> None:
    """A compromised worker may call Roboco's scripts with any arguments."""
    keys = [f"{acl_stack.settings.prefix}:{{rate:{uuid.uuid4().hex}}}:{number}" for number in range(8)]
    with connect(url_of(acl_stack.valkey, "roboco-agents")) as client, connect(acl_stack.valkey.url) as admin:
        try:
            with suppress(redis.ResponseError, RobocoError):
                Scripts(client).run("rate_reserve", keys, "ticket", 1, "tenant", window, 1000, 1000, "0", "")
            for number in ("1", "1e300"):
                with suppress(redis.ResponseError, RobocoError):
                    Scripts(client).run("rate_record", keys[:2], number, "-1e300", window, 1000, "")
        finally:
            with pytest.raises(redis.ResponseError, match="NOTBUSY"):
                admin.script_kill()
