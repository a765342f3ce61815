"""Only coordinators load Lua scripts. Other Redis users call them by hash, and wait while Redis holds none."""

import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis
from redis.exceptions import NoPermissionError

from roboco.broker.broker_scripts import BROKER_SCRIPTS
from roboco.domain.team.model_limits import ModelLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import RobocoError, TransientError
from roboco.ports.rate_limits import Admitted, Queued, Ticket
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts, script_texts
from tests.support.flower import flower
from tests.support.journeys import GRAPH, answer, shape
from tests.support.redis_users import StackOfUsers, take_denials, url_of
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]
MISSING = "Redis does not hold Roboco's scripts of this release yet; a coordinator worker loads them"
WAITING = "cannot use the broker for now: it does not hold kombu's scripts yet"
USERS_WITHOUT_LOAD = (
    "agents",
    "tools",
    "client",
    "client-acme",
    "flower",
    "producer",
    "follower",
    "follower-acme",
    "probe",
)
ENDLESS = "while true do end"
PROFILE = ModelProfile(model="m", requests_per_minute=1, tokens_per_minute=100)


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


@pytest.mark.parametrize("user", USERS_WITHOUT_LOAD)
@pytest.mark.parametrize("command", ["SCRIPT LOAD", "EVAL", "FUNCTION LOAD"])
def test_a_user_of_another_pool_may_load_no_script(acl_stack: Stack, user: str, command: str) -> None:
    with connect(url_of(acl_stack.valkey, f"roboco-{user}")) as client, pytest.raises(NoPermissionError):
        client.execute_command(command, *([ENDLESS, 0] if command == "EVAL" else [ENDLESS]))
    take_denials(acl_stack)


def test_a_coordinator_has_loaded_all_scripts_when_it_is_ready(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=("coordinator",)) as stack:
        assert holds_scripts(stack)


def test_no_script_is_loaded_by_another_pool_while_a_coordinator_works(acl_stack: Stack) -> None:
    assert acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt).result(60).status == "completed"
    assert holds_scripts(acl_stack)
    assert take_denials(acl_stack) == set()


def test_a_client_without_scripts_in_redis_raises_and_may_repeat_its_call(acl_stack: Stack) -> None:
    task_id = f"task_{uuid.uuid4().hex}"
    with without_scripts(acl_stack), pytest.raises(TransientError, match=MISSING):
        acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt, task_id=task_id)
    until(lambda: holds_scripts(acl_stack), 60, "the coordinator has loaded the scripts")
    assert acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt, task_id=task_id).result(60).status == "completed"
    assert_only_loads_denied(acl_stack)


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


def test_flower_that_starts_before_a_coordinator_shows_the_workers_later(acl_stack: Stack) -> None:
    log = acl_stack.folder / "flower.log"

    def wait_for_failure() -> None:
        with without_scripts(acl_stack):
            until(
                lambda: log.exists() and "Failed to capture events" in log.read_text(),
                30,
                "Flower fails without a script",
            )

    with ThreadPoolExecutor(1) as executor:
        failure = executor.submit(wait_for_failure)
        with flower(acl_stack, ROBOCO_REDIS_URL=url_of(acl_stack.valkey, "roboco-flower")):
            failure.result(60)
    assert_only_loads_denied(acl_stack)


def assert_only_loads_denied(stack: Stack) -> None:
    """Raise AssertionError if Redis has denied another command than the loading of scripts."""
    assert {kind.partition(" ")[2] for kind in take_denials(stack)} <= {"toplevel command script|load"}


def test_the_user_of_agents_may_use_the_rate_limits_of_a_model(acl_stack: Stack) -> None:
    with connect(url_of(acl_stack.valkey, "roboco-agents")) as client:
        rates = RedisRateLimiter(Scripts(client), Keys(acl_stack.settings.prefix), ModelLimits())
        tickets = [Ticket(f"task_{uuid.uuid4().hex}", "team", str(number)) for number in range(3)]
        admissions = [rates.reserve(PROFILE, ticket, 60) for ticket in tickets]
        rates.record_usage(PROFILE, tickets[0], 10)
        rates.release(PROFILE, tickets[1])
    assert [type(admission) for admission in admissions] == [Admitted, Queued, Queued]
    assert take_denials(acl_stack) == set()


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
