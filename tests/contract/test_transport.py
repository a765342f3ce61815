"""The transport: kombu's, with one client for each channel."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection
from kombu import transport as kombu_transport

from roboco.adapters.celery.transport import Transport, guard_transports
from roboco.adapters.local.valkey import ValkeyServer

pytestmark = pytest.mark.redis


@pytest.fixture
def connection(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name in ("TRANSPORT_ALIASES", "_transport_cache"):
        monkeypatch.setattr(kombu_transport, name, dict(vars(kombu_transport)[name]))
    guard_transports()
    with Connection(valkey.url) as connection:
        yield connection


def test_commands_share_a_client(connection: Connection) -> None:
    channel: Any = connection.default_channel
    assert isinstance(connection.transport, Transport)
    with channel.conn_or_acquire() as one, channel.conn_or_acquire() as other:
        assert one is other
    asynchronous = channel.client
    assert asynchronous is not one
    assert asynchronous.connection_pool is channel.async_pool


def test_connections_that_are_lost_are_made_anew(connection: Connection) -> None:
    channel: Any = connection.default_channel
    with channel.conn_or_acquire() as before:
        before.set("transport", "1")
    channel._disconnect_pools()
    with channel.conn_or_acquire() as after:
        assert after.get("transport") == b"1"
        assert after is not before


def test_a_message_comes_through(connection: Connection) -> None:
    with connection.SimpleQueue("transport.test") as queue:
        queue.put({"number": 1})
        message = queue.get(timeout=5)
        assert message.payload == {"number": 1}
        message.ack()
        with pytest.raises((queue.Empty, socket.timeout)):
            queue.get(timeout=0.1)
