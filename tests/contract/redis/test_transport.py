"""The transport for Celery's messages: that of kombu, with one client for each channel."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Queue
from kombu import transport as kombu_transport

from roboco.broker.dead_letter import letter_of_message
from roboco.broker.message_reader import REFUSED_HEADER
from roboco.broker.transport import guard_transports
from roboco.local.valkey import ValkeyServer
from tests.faults.hostile.producer import message, properties

pytestmark = pytest.mark.redis


@pytest.fixture
def connection(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(kombu_transport, "TRANSPORT_ALIASES", dict(kombu_transport.TRANSPORT_ALIASES))
    monkeypatch.setattr(kombu_transport, "_transport_cache", {})
    guard_transports()
    with Connection(valkey.url) as connection:
        yield connection


def test_lost_connections_are_reopened(connection: Connection) -> None:
    channel: Any = connection.default_channel
    with channel.conn_or_acquire() as before:
        before.set("transport", "1")
    channel._disconnect_pools()
    with channel.conn_or_acquire() as after:
        assert after.get("transport") == b"1"
        assert after is not before


def test_an_unreadable_message_reaches_the_consumer_with_the_reason_again_after_it_was_returned(
    connection: Connection,
) -> None:
    received: list[Any] = []
    channel: Any = connection.default_channel
    consumer = connection.Consumer([Queue("transport.refused")], on_message=received.append)
    with consumer, channel.conn_or_acquire() as client:
        client.lpush("transport.refused", b"unreadable", json.dumps(message()))
        for count in (1, 2, 3):
            while len(received) < count:
                connection.drain_events(timeout=60)
            if count < 3:
                received[0].requeue() if count == 1 else received[1].ack()
    first, good, again = received
    assert first.body == again.body == b"unreadable"
    assert first.headers.items() <= again.headers.items()
    assert "is no JSON" in again.headers[REFUSED_HEADER]
    assert good.payload == [["x"], {}, {}]
    assert letter_of_message(first, "").letter_id == letter_of_message(again, "").letter_id
    again.ack()


def test_a_message_gets_its_own_tag_whatever_its_sender_wrote(connection: Connection) -> None:
    received: list[Any] = []
    channel: Any = connection.default_channel
    with (
        connection.Consumer([Queue("transport.tags")], on_message=received.append),
        channel.conn_or_acquire() as client,
    ):
        client.lpush("transport.tags", *[json.dumps(message(properties=properties(delivery_tag="a")))] * 2)
        while len(received) < 2:
            connection.drain_events(timeout=60)
        assert client.hlen(channel.unacked_key) == 2
        for one in received:
            one.ack()


@pytest.mark.parametrize(
    "entry",
    [
        '["x',
        "5",
        '[{}, "", "q"]',
        '[{"headers": {}, "properties": {}}, "", "q"]',
        '[{"headers": 1}, "", "q"]',
        "[" * 50_000,
    ],
)
def test_an_entry_that_is_no_message_stops_no_return_of_others(connection: Connection, entry: str) -> None:
    channel: Any = connection.default_channel
    with connection.SimpleQueue("transport.held") as queue:
        queue.put({"number": 1})
        queue.get(timeout=60)
        with channel.conn_or_acquire() as client:
            client.hset(channel.unacked_key, "bad", entry)
            client.zadd(channel.unacked_index_key, {"bad": 2})
            for tag in client.hkeys(channel.unacked_key):
                client.zadd(channel.unacked_index_key, {tag: 1})
            channel.qos.restore_visible(interval=1)
            assert client.hkeys(channel.unacked_key) == []
            assert client.zcard(channel.unacked_index_key) == 0
        returned = queue.get(timeout=60)
        assert returned.payload == {"number": 1}
        returned.ack()
