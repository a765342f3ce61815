"""Direct calls: an answer belongs to its call, whatever became of the calls before it."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis import direct_calls
from roboco.adapters.redis.client import TIMEOUT, connect
from roboco.adapters.redis.direct_calls import MAX_IDLE, DirectCalls, LostConnectionError, ask
from roboco.adapters.redis.scripts import ScriptCall, Scripts
from roboco.errors import TransientError

pytestmark = pytest.mark.redis
RENEW = ("renew", ["roboco:{a}:state", "roboco:{a}:lease"], 1, "me", 1000)


@pytest.fixture
def client(valkey: ValkeyServer) -> Iterator[redis.Redis]:
    with connect(valkey.url) as client:
        yield client


@pytest.fixture
def calls(client: redis.Redis) -> DirectCalls:
    return DirectCalls(client)


def connection_of(calls: DirectCalls) -> Any:
    """The connection that the next call uses."""
    assert calls.call("PING") in ("PONG", b"PONG")
    return calls._idle[-1][1]


def test_calls_reuse_a_connection_and_have_their_own_answers(client: redis.Redis, calls: DirectCalls) -> None:
    assert [calls.call("ECHO", str(number)) for number in range(5)] == list("01234")
    assert calls.call_all([("ECHO", "a"), ("ECHO", "b")]) == ["a", "b"]
    assert len(calls._idle) == 1
    assert client.ping()


def test_several_answers_are_asked_for_in_one_round_trip(client: redis.Redis) -> None:
    assert ask(client, ("SET", "asked", "1"), ("GET", "asked"), ("LRANGE", "none", 0, -1)) == ["OK", "1", []]
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        ask(client, ("GET", "asked"), ("LLEN", "asked"))
    shared = direct_calls.direct_calls_of(client)
    assert shared is not None
    lost(client, shared)
    assert ask(client, ("GET", "asked")) is None, "the caller asks through the client"
    assert ask(client, ("GET", "asked")) == ["1"]


def test_a_client_of_another_class_is_not_bypassed(valkey: ValkeyServer) -> None:
    class Other(redis.Redis): ...

    with Other.from_url(valkey.url) as other:
        assert ask(other, ("PING",)) is None


def test_a_refused_command_leaves_the_connection_usable(calls: DirectCalls) -> None:
    before = connection_of(calls)
    with pytest.raises(redis.ResponseError, match="unknown command"):
        calls.call("NONSENSE")
    one, error, other = calls.call_all([("ECHO", "a"), ("NONSENSE",), ("ECHO", "b")])
    assert (one, other) == ("a", "b")
    assert isinstance(error, redis.ResponseError)
    assert connection_of(calls) is before


def test_an_answer_that_was_not_read_is_never_anothers(calls: DirectCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may raise in the main thread at any place, such as Celery's soft time limit."""

    class SoftTimeLimitError(Exception):
        pass

    def raise_instead(connection: object) -> None:
        raise SoftTimeLimitError

    connection_of(calls)
    with monkeypatch.context() as patched:
        patched.setattr(direct_calls, "_read", raise_instead)
        with pytest.raises(SoftTimeLimitError):
            calls.call("ECHO", "unread")
    assert calls.call("ECHO", "next") == "next"


def test_a_lost_connection_is_an_error_of_the_call_and_scripts_repeat_it(client: redis.Redis) -> None:
    scripts = Scripts(client)
    assert scripts.run(*RENEW) == 0
    direct = scripts._direct
    assert direct is not None
    with pytest.raises(redis.ConnectionError):
        lost(client, direct).call("PING")
    lost(client, direct)
    assert scripts.run(*RENEW) == 0
    lost(client, direct)
    assert scripts.run_all([ScriptCall(RENEW[0], RENEW[1], [1, "me", 1000])] * 2) == [0, 0]


@pytest.fixture
def admin(valkey: ValkeyServer) -> Iterator[Any]:
    """Yield a raw connection, which makes the server a primary again when the test ends."""
    with redis.Redis.from_url(valkey.url, single_connection_client=True) as admin:
        untyped: Any = admin
        yield untyped
        untyped.execute_command("REPLICAOF", "NO", "ONE")


def test_a_connection_to_a_replica_is_not_used_again(calls: DirectCalls, admin: Any) -> None:
    """After a failover its host's name may lead to the new primary, but the old connection never does."""
    before = calls.call("CLIENT", "ID")
    admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(redis.ReadOnlyError):
        calls.call("SET", "a", "1")
    assert calls.call("CLIENT", "ID") != before


def test_after_a_failover_one_call_fails_and_not_one_for_each_connection(calls: DirectCalls, admin: Any) -> None:
    pool: Any = calls._pool
    in_pool = [pool.get_connection() for _ in range(3)]
    with calls._connected(), calls._connected(), calls._connected():
        pass
    assert len(calls._idle) == 3
    for connection in in_pool:
        pool.release(connection)
    admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(redis.ReadOnlyError):
        calls.call("SET", "a", "1")
    admin.execute_command("REPLICAOF", "NO", "ONE")
    assert not calls._idle
    assert not any(connection._sock for connection in in_pool), "all of them led to the replica"
    assert calls.call("SET", "a", "1") in ("OK", b"OK")


def test_a_client_repeats_a_command_that_a_replica_refused(
    client: redis.Redis, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = client.client_id()
    admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    open_socket: Any = redis.Connection._connect

    def fail_over(connection: redis.Connection) -> Any:
        admin.execute_command("REPLICAOF", "NO", "ONE")
        return open_socket(connection)

    monkeypatch.setattr(redis.Connection, "_connect", fail_over)
    assert client.set("a", "1")
    assert client.client_id() != before


@pytest.mark.parametrize(
    ("refuse", "accept", "problem"),
    [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", r"read only replica.*check that ROBOCO_REDIS_URL leads"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", r"command not allowed.*raise its `maxmemory`"),
    ],
)
def test_a_redis_that_refuses_writes_is_named_with_its_remedy(
    client: redis.Redis, admin: Any, refuse: str, accept: str, problem: str
) -> None:
    scripts = Scripts(client)
    write = ScriptCall("dead_letter_add", ["{d}l", "{d}o", "{d}s"], ["id", "letter", 1, 9, 999])
    assert scripts.run_all([write]) == [0]
    admin.execute_command(*refuse.split())
    try:
        with pytest.raises(TransientError, match=problem):
            scripts.run(write.name, write.keys, *write.arguments)
        (answer,) = scripts.run_all([write])
        assert isinstance(answer, TransientError)
    finally:
        admin.execute_command(*accept.split())
    assert scripts.run_all([write]) == [0]


def test_a_server_that_refuses_connections_is_tried_as_often_as_the_client_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []

    def refuse(connection: object) -> None:
        tried.append(connection)
        raise ConnectionRefusedError

    monkeypatch.setattr(redis.Connection, "_connect", refuse)
    client = connect("redis://127.0.0.1:1")
    retry: Any = client.get_retry()
    retry.update_retries(2)

    def run_together() -> None:
        [error] = Scripts(client).run_all([ScriptCall(RENEW[0], RENEW[1], [1, "me", 1000])])
        raise error

    for call in (client.ping, lambda: Scripts(client).run(*RENEW), run_together):
        tried.clear()
        with pytest.raises((redis.ConnectionError, TransientError)):
            call()
        assert len(tried) == 3


def test_a_connection_that_was_lost_returns_to_the_pool(client: redis.Redis, calls: DirectCalls) -> None:
    lost(client, calls)
    with pytest.raises(LostConnectionError):
        calls.call("PING")
    assert len(calls._idle) == 0
    pool: Any = client.connection_pool
    assert len(pool._in_use_connections) == 0
    assert calls.call("PING") == "PONG"


def test_a_child_process_uses_connections_of_its_own(calls: DirectCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, parent = connection_of(calls), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert calls.call("ECHO", "child") == "child"
    assert mine not in [connection for _, connection in calls._idle]


def test_only_some_connections_are_kept_from_the_pool(client: redis.Redis, calls: DirectCalls) -> None:
    taken = [calls._take() for _ in range(MAX_IDLE + 3)]
    for connection in taken:
        calls._give_back(connection)
    assert len(calls._idle) == MAX_IDLE
    pool: Any = client.connection_pool
    assert len(pool._available_connections) == 3


def lost(client: redis.Redis, calls: DirectCalls) -> DirectCalls:
    """The calls, after the server has closed the connection that the next one uses."""
    client.client_kill_filter(_id=str(calls.call("CLIENT", "ID")))
    return calls


def test_all_scripts_of_a_client_share_the_kept_connections(client: redis.Redis) -> None:
    first, second = Scripts(client), Scripts(client)
    assert first._direct is not None
    assert first._direct is second._direct


def test_a_server_that_does_not_answer_is_a_timeout_and_no_lost_connection(valkey: ValkeyServer) -> None:
    """Callers repeat a call that has lost its connection, but not one that has timed out."""
    with redis.Redis.from_url(valkey.url, socket_timeout=2) as client:
        calls = DirectCalls(client)
        connection_of(calls)
        with pytest.raises(redis.TimeoutError):
            calls.call("BLPOP", "roboco:nothing", 60)
        assert len(calls._idle) == 0
        assert calls.call("ECHO", "next") == b"next"


def test_a_kept_connection_waits_in_the_kernel_and_one_of_the_pool_in_python(
    client: redis.Redis, calls: DirectCalls
) -> None:
    kept = connection_of(calls)
    assert kept._sock.gettimeout() is None
    others = [calls._take() for _ in range(MAX_IDLE + 1)]
    for connection in others:
        calls._give_back(connection)
    assert {connection._sock.gettimeout() for _, connection in calls._idle} == {None}
    pool: Any = client.connection_pool
    assert [connection._sock.gettimeout() for connection in pool._available_connections] == [TIMEOUT]
