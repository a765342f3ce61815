"""A Redis that refuses writes or connections: the cause is named, and no connection to a replica is used again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from roboco.errors import TransientError
from roboco.local.valkey import ValkeyServer
from roboco.redis.client import connect, connect_fail_fast, connect_for_renewals
from roboco.redis.scripts import ScriptCall, Scripts

pytestmark = pytest.mark.redis
RENEW = ("renew", ["roboco:{a}:state", "roboco:{a}:lease"], 1, "me", 1000)


@pytest.fixture
def admin(valkey: ValkeyServer) -> Iterator[Any]:
    """Yield a raw connection, which makes the server a primary again when the test ends."""
    with redis.Redis.from_url(valkey.url, single_connection_client=True) as admin:
        untyped: Any = admin
        yield untyped
        untyped.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("opened", [connect, connect_fail_fast, lambda url: connect_for_renewals(url, 5)])
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    ("refuse", "accept"),
    [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    ],
    ids=["a replica", "a fenced primary"],
)
def test_after_a_refusal_no_old_connection_is_used(
    valkey: ValkeyServer, admin: Any, opened: Callable[[str], redis.Redis], batch: bool, refuse: str, accept: str
) -> None:
    """A host's name may lead to the new primary then, but an old connection never does."""
    write = ScriptCall("dead_letter_add", ["{f}l", "{f}o", "{f}s"], ["id", "letter", 1, 9, 999])
    with opened(valkey.url) as client:
        pool: Any = client.connection_pool
        connections = [pool.get_connection() for _ in range(3)]
        for connection in connections:
            pool.release(connection)
        scripts = Scripts(client)
        assert scripts.run_all([write]) == [0]
        admin.execute_command(*refuse.split())
        try:
            if batch:
                (answer,) = scripts.run_all([write])
                assert isinstance(answer, TransientError)
            else:
                with pytest.raises(TransientError):
                    scripts.run(write.name, write.keys, *write.arguments)
            assert not any(connection.is_connected for connection in connections)
        finally:
            admin.execute_command(*accept.split())
        assert scripts.run(write.name, write.keys, *write.arguments) == 0


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
