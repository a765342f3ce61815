"""The Lua scripts on Redis: coordinators load them, and users that may not load them wait for a coordinator."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from roboco.broker.broker_scripts import BROKER_SCRIPTS, BrokerScripts
from roboco.client.wiring import producer_app
from roboco.errors import TransientError
from roboco.local.valkey import ValkeyServer, find_server, start_valkey
from roboco.redis.client import connect
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.redis.scripts import ScriptCall, Scripts, load_missing, script_texts
from roboco.settings import Settings
from tests.conftest import need, running
from tests.support.servers.cluster import PRIMARIES, Cluster

pytestmark = pytest.mark.redis
CLEAR_CANCELLATION = ("clear_cancellation", ["roboco:{a}:state"], 1)
RENEW = ScriptCall("renew", ["roboco:{a}:state", "roboco:{a}:lease"], [1, "me", 1000])
MISSING_SCRIPTS = "Redis does not hold Roboco's scripts of this release yet; a coordinator worker loads them"


@pytest.fixture(scope="module")
def own_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Yield a server whose scripts no other test uses."""
    need(find_server)
    yield from running(start_valkey(tmp_path_factory.mktemp("valkey")))


@pytest.fixture
def coordinator(own_valkey: ValkeyServer) -> Iterator[redis.Redis]:
    """Yield a client that may load scripts. Redis holds none."""
    with connect(own_valkey.url) as client:
        client.script_flush()
        yield client


@pytest.fixture
def other(own_valkey: ValkeyServer, coordinator: redis.Redis) -> Iterator[redis.Redis]:
    """Yield a client that may not load scripts."""
    untyped: Any = coordinator
    untyped.execute_command("ACL", "SETUSER", "other", "on", "nopass", "~*", "&*", "+@all", "-script|load", "-eval")
    with connect(own_valkey.url.replace("//", "//other:x@")) as client:
        yield client


def test_a_user_with_the_right_to_load_scripts_loads_the_called_one(coordinator: redis.Redis) -> None:
    scripts = Scripts(coordinator)
    assert scripts.run(*CLEAR_CANCELLATION) is not None
    assert scripts.run_all([RENEW]) == [0]
    held = coordinator.script_exists(*map(scripts.hash_of, script_texts()))
    assert held.count(True) == 2


def test_a_user_without_the_right_to_load_scripts_waits_for_a_coordinator(
    coordinator: redis.Redis, other: redis.Redis
) -> None:
    scripts = Scripts(other)
    with pytest.raises(TransientError, match=MISSING_SCRIPTS):
        scripts.run(*CLEAR_CANCELLATION)
    with pytest.raises(TransientError, match=MISSING_SCRIPTS):
        RedisDeadLetters(lambda: other, Keys()).remove("a")
    load_missing(coordinator, script_texts().values())
    assert scripts.run(*CLEAR_CANCELLATION) is not None
    RedisDeadLetters(lambda: other, Keys()).remove("a")


def test_only_missing_scripts_are_loaded(coordinator: redis.Redis) -> None:
    assert load_missing(coordinator, script_texts().values()) == len(script_texts())
    assert load_missing(coordinator, script_texts().values()) == 0
    coordinator.script_flush()
    Scripts(coordinator).run(*CLEAR_CANCELLATION)
    assert load_missing(coordinator, script_texts().values()) == len(script_texts()) - 1


def test_kombus_scripts_are_loaded_again_once_the_broker_has_lost_them(
    own_valkey: ValkeyServer, coordinator: redis.Redis
) -> None:
    with producer_app(Settings(redis_url=own_valkey.url)) as app:
        scripts = BrokerScripts(app)
        assert [scripts.load_missing() for _ in range(2)] == [len(BROKER_SCRIPTS), 0]
        assert all(coordinator.script_exists(*(coordinator.register_script(text).sha for text in BROKER_SCRIPTS)))
        coordinator.script_flush()
        assert scripts.load_missing() == len(BROKER_SCRIPTS)


def test_scripts_are_loaded_into_every_reachable_primary_of_a_cluster(cluster: Cluster) -> None:
    with connect(cluster.url) as client:
        texts = script_texts()
        assert load_missing(client, texts.values()) == PRIMARIES * len(texts)
        cluster.ask(1, "SCRIPT", "FLUSH")
        assert load_missing(client, texts.values()) == len(texts)
        for number in range(1, PRIMARIES):
            cluster.ask(number, "SCRIPT", "FLUSH")
        cluster.kill(0)
        with pytest.raises(TransientError):
            load_missing(client, texts.values())
        assert [cluster.ask(number, "INFO", "memory")["number_of_cached_scripts"] for number in (1, 2)] == [
            len(texts)
        ] * 2
