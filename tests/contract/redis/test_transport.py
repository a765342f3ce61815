"""The transport for Celery's messages: that of kombu, with one client for each channel."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Queue
from kombu import transport as kombu_transport

from roboco.broker.dead_letter import record_of_raw
from roboco.broker.receiving import MAX_HELD_RECORD_BYTES, read_held_record
from roboco.broker.transport import Transport, guard_transports
from roboco.local.valkey import ValkeyServer
from tests.faults.hostile.producer import headers, message

pytestmark = pytest.mark.redis


@pytest.fixture
def connection(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name in ("TRANSPORT_ALIASES", "_transport_cache"):
        monkeypatch.setattr(kombu_transport, name, dict(vars(kombu_transport)[name]))
    guard_transports()
    with Connection(valkey.url) as connection:
        yield connection


def test_commands_of_a_channel_share_a_client(connection: Connection) -> None:
    channel: Any = connection.default_channel
    assert isinstance(connection.transport, Transport)
    with channel.conn_or_acquire() as one, channel.conn_or_acquire() as other:
        assert one is other
    asynchronous = channel.client
    assert asynchronous is not one
    assert asynchronous.connection_pool is channel.async_pool


def test_lost_connections_are_reopened(connection: Connection) -> None:
    channel: Any = connection.default_channel
    with channel.conn_or_acquire() as before:
        before.set("transport", "1")
    channel._disconnect_pools()
    with channel.conn_or_acquire() as after:
        assert after.get("transport") == b"1"
        assert after is not before


def test_a_message_is_delivered_once(connection: Connection) -> None:
    with connection.SimpleQueue("transport.test") as queue:
        queue.put({"number": 1})
        message = queue.get(timeout=60)
        assert message.payload == {"number": 1}
        message.ack()
        with pytest.raises((queue.Empty, socket.timeout)):
            queue.get(timeout=0.1)


def test_a_message_with_large_headers_is_redelivered(connection: Connection) -> None:
    """kombu stores unacknowledged messages with ASCII escapes, which makes these headers three times longer."""
    sent = headers(**{f"n{number}": "é" * 25_000 for number in range(5)})
    channel: Any = connection.default_channel
    with connection.SimpleQueue("transport.large") as queue, channel.conn_or_acquire() as client:
        client.lpush("transport.large", json.dumps(message(headers=sent), ensure_ascii=False))
        queue.get(timeout=60).requeue()
        again = queue.get(timeout=60)
        assert again.headers == sent | {"redelivered": True}
        again.ack()


def test_refused_messages_are_held_until_their_dead_letters_are_stored(connection: Connection) -> None:
    stored: list[dict[str, Any]] = []

    def fail(record: dict[str, Any]) -> None:
        raise OSError(f"the store is away, not stored: {record['letter_id']}")

    transport: Any = connection.transport
    channel: Any = connection.default_channel
    transport.refuse = fail
    raw = [b"unreadable", b"also unreadable"]
    with connection.SimpleQueue("transport.refused") as queue, channel.conn_or_acquire() as client:
        client.lpush("transport.refused", *raw)
        while len(client.hkeys(channel.unacked_key)) < len(raw):
            with pytest.raises((queue.Empty, socket.timeout)):
                queue.get(timeout=0.1)
        transport.refuse = stored.append
        for tag in client.hkeys(channel.unacked_key):
            channel.qos.restore_by_tag(tag.decode())
    letters = {record["letter_id"]: record["body"].encode() for record in stored}
    assert letters == {record_of_raw(one, "transport.refused", "", {})["letter_id"]: one for one in raw}


@pytest.mark.parametrize(("size", "read"), [(1000, True), (MAX_HELD_RECORD_BYTES, False)])
def test_a_held_record_that_is_too_large_is_not_parsed(size: int, read: bool) -> None:
    record = record_of_raw(b"unreadable", "transport.refused", "is no JSON", {}) | {"body": "x" * size}
    assert (read_held_record(json.dumps([json.dumps(record), "", "transport.refused"]).encode()) is not None) == read


TURN = {"task": "roboco.turn", "id": "task_1/0001/turn/1"}
COMMAND = {"task": "roboco.send", "id": "m-1"}
UNREADABLE = {"task": ["roboco.turn"], "id": "m-2"}


@pytest.fixture
def channel(connection: Connection) -> Any:
    """A channel that receives what `put` sends, one message at a time."""
    return connection.default_channel


def put(connection: Connection, queue: str, number: int, sent: dict[str, Any]) -> None:
    connection.Producer().publish({"number": number}, routing_key=queue, headers=sent, declare=[Queue(queue)])


def numbers(channel: Any, queue: str) -> list[int]:
    """The messages of the queue in their order, all acknowledged."""
    found = []
    while message := channel.basic_get(queue):
        found.append(message.payload["number"])
        message.ack()
    return found


@pytest.mark.parametrize(("sent", "noted"), [(TURN, 0), (COMMAND, 1), (UNREADABLE, 1)])
def test_a_received_message_is_noted_in_redis_unless_the_sweeper_repeats_it(
    connection: Connection, channel: Any, sent: dict[str, Any], noted: int
) -> None:
    put(connection, "transport.noted", 1, sent)
    with channel.conn_or_acquire() as client:
        received = channel.basic_get("transport.noted")
        assert client.hlen(channel.unacked_key) == client.zcard(channel.unacked_index_key) == noted
        received.ack()
        assert client.hlen(channel.unacked_key) == client.zcard(channel.unacked_index_key) == 0


@pytest.mark.parametrize("sent", [TURN, COMMAND, UNREADABLE])
def test_a_requeued_message_returns_and_a_rejected_one_does_not(
    connection: Connection, channel: Any, sent: dict[str, Any]
) -> None:
    put(connection, "transport.again", 1, sent)
    channel.basic_get("transport.again").requeue()
    again = channel.basic_get("transport.again")
    assert (again.payload, again.headers) == ({"number": 1}, sent | {"redelivered": True})
    assert again.delivery_info["redelivered"]
    again.reject()
    assert numbers(channel, "transport.again") == []


@pytest.mark.parametrize("sent", [TURN, COMMAND, UNREADABLE])
def test_a_worker_that_ends_returns_the_messages_that_it_has_not_acknowledged(
    connection: Connection, channel: Any, sent: dict[str, Any]
) -> None:
    for number in range(3):
        put(connection, "transport.returned", number, sent)
    channel.basic_get("transport.returned").ack()
    held = [channel.basic_get("transport.returned") for _ in range(2)]
    assert len(held) == 2
    channel.qos.restore_unacked_once()
    assert sorted(numbers(connection.channel(), "transport.returned")) == [1, 2]
