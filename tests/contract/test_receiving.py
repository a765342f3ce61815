"""A channel that receives several messages at once: how many, in which order, and what becomes of a bad one."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Queue
from kombu import transport as kombu_transport

from roboco.broker.envelope import read_envelope
from roboco.broker.transport import guard_transports
from roboco.local.valkey import ValkeyServer

pytestmark = pytest.mark.redis


class Receiver:
    """A consumer of queues. A message with `poison` in its body raises an error in the consumer."""

    def __init__(self, connection: Connection, name: str, lanes: int) -> None:
        self.connection = connection
        transport: Any = connection.transport
        self.transport = transport
        self.channel: Any = connection.default_channel
        self.queues = [f"{name}.{lane}" for lane in range(lanes)]
        self.received: list[Any] = []
        self.messages: list[Any] = []
        self.refused: list[dict[str, Any]] = []
        transport.refuse = self.refused.append
        self.consumer = Consumer(connection, [Queue(queue) for queue in self.queues], callbacks=[self._receive])

    def _receive(self, body: Any, message: Any) -> None:
        self.received.append(body)
        self.messages.append(message)
        message.ack()
        if body == "poison":
            raise ValueError("poison")

    def send(self, *bodies: Any, lane: int = 0, priority: int = 0) -> None:
        for body in bodies:
            self.connection.Producer().publish(
                body, routing_key=self.queues[lane], priority=priority, serializer="json"
            )

    def receive(self) -> list[Any]:
        """Return the messages that one answer of the broker brings."""
        self.received.clear()
        self.connection.drain_events(timeout=60)
        return self.received


@pytest.fixture
def receive(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Receiver]]:
    for name in ("TRANSPORT_ALIASES", "_transport_cache"):
        monkeypatch.setattr(kombu_transport, name, dict(vars(kombu_transport)[name]))
    guard_transports()
    connections = list[Connection]()

    def start(
        name: str,
        free: int | None,
        prefetch: int = 4,
        lanes: int = 1,
        url: str = valkey.url,
        transport: str = "redis",
        **options: Any,
    ) -> Receiver:
        connections.append(Connection(url, transport=transport, transport_options=options))
        receiver = Receiver(connections[-1], name, lanes)
        receiver.consumer.qos(prefetch_count=prefetch)
        if free is not None:
            receiver.transport.count_free = lambda: free
        receiver.consumer.consume()
        return receiver

    yield start
    for connection in connections:
        connection.close()


@pytest.mark.parametrize(
    ("free", "prefetch", "received"),
    [(10, 4, 4), (3, 4, 3), (10, 0, 6), (1, 4, 1), (0, 4, 1), (-1, 4, 1), (None, 4, 1)],
)
def test_it_receives_as_many_messages_as_the_worker_can_start_and_may_hold(
    receive: Callable[..., Receiver], free: int | None, prefetch: int, received: int
) -> None:
    receiver = receive(f"count.{free}.{prefetch}", free, prefetch)
    receiver.send(*range(6))
    assert receiver.receive() == list(range(received))


def test_the_highest_priority_is_first_and_the_queues_take_turns(receive: Callable[..., Receiver]) -> None:
    receiver = receive("order", 2, lanes=2)
    receiver.send("a1", "a2", "a3", lane=0, priority=3)
    receiver.send("b1", "b2", "b3", lane=1, priority=3)
    receiver.send("urgent", lane=1, priority=0)
    answers = [list(receiver.receive()) for _ in range(5)]
    assert answers == [["urgent"], ["a1", "a2"], ["b1", "b2"], ["a3"], ["b3"]]


@pytest.mark.parametrize("free", [None, 3])
def test_its_messages_are_those_of_kombu(receive: Callable[..., Receiver], free: int | None) -> None:
    """This module replaces private methods of kombu: if a release changes them, this test shows it."""
    receivers = [
        receive(f"kombu.{free}", None, lanes=2, transport="kombu.transport.redis:Transport"),
        receive(f"kombu.{free}", free, lanes=2),
    ]
    found = []
    for receiver in receivers:
        receiver.send({"n": [1, "é", None, 1.5]}, ["a2"], lane=0, priority=3)
        receiver.send("b1", "b2", lane=1, priority=6)
        receiver.send("urgent", lane=1, priority=0)
        while len(receiver.messages) < 5:
            receiver.receive()
        receiver.consumer.cancel()
        found.append([parts_of(message) for message in receiver.messages])
    of_kombu, ours = found
    assert ours == of_kombu
    with receivers[1].channel.conn_or_acquire() as client:
        assert not client.exists("unacked", "unacked_index")


def parts_of(message: Any) -> dict[str, Any]:
    """Return what a consumer reads of a message, apart from the tag, which is new for each delivery."""
    properties = {name: value for name, value in message.properties.items() if name != "delivery_tag"}
    names = ("payload", "headers", "delivery_info", "content_type", "content_encoding", "acknowledged")
    return {name: getattr(message, name) for name in names} | {"properties": properties}


def test_an_unreadable_message_among_others_becomes_a_dead_letter(receive: Callable[..., Receiver]) -> None:
    receiver = receive("unreadable", 3)
    receiver.send("one")
    with receiver.channel.conn_or_acquire() as client:
        client.lpush(receiver.queues[0], b"no message")
    receiver.send("two")
    assert receiver.receive() == ["one", "two"]
    assert [record["body"] for record in receiver.refused] == ["no message"]


def test_an_error_at_one_message_loses_no_other(receive: Callable[..., Receiver]) -> None:
    receiver = receive("error", 3)
    receiver.send("one", "poison", "two")
    with pytest.raises(ValueError, match="poison"):
        receiver.receive()
    assert receiver.received == ["one", "poison", "two"]
    receiver.send("three")
    assert receiver.receive() == ["three"]


def test_an_error_while_a_message_is_read_loses_no_other(
    receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive("unread", 3)

    def read(raw: bytes, queue: str) -> Any:
        if b"odd" in raw:
            raise MemoryError
        return read_envelope(raw, queue)

    monkeypatch.setattr("roboco.broker.receiving.read_envelope", read)
    with receiver.channel.conn_or_acquire() as client:
        client.lpush(receiver.queues[0], b"odd")
    receiver.send("two")
    with pytest.raises(MemoryError):
        receiver.receive()
    assert receiver.received == ["two"]


@pytest.mark.parametrize("first", [ConnectionResetError, ValueError])
def test_an_error_that_is_no_lost_connection_is_raised_first(
    receive: Callable[..., Receiver], first: type[Exception]
) -> None:
    receiver = receive("errors", 3)
    errors = [first("1"), ConnectionResetError("2") if first is ValueError else ValueError("2")]

    def fail(body: Any, message: Any) -> None:
        raise errors.pop(0)

    receiver.consumer.callbacks = [fail]
    receiver.send("one", "two")
    with pytest.raises(ValueError, match=r"\d"):
        receiver.receive()
    assert not errors


def test_a_broker_that_refuses_it_is_asked_for_one_message_at_a_time(
    valkey: ValkeyServer, receive: Callable[..., Receiver], caplog: pytest.LogCaptureFixture
) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        client.execute_command("ACL", "SETUSER", "older", "on", "nopass", "~*", "&*", "+@all", "-blmpop")
    receiver = receive("refused", 3, url=valkey.url.replace("//", "//older:any@"))
    receiver.send("one", "two")
    with caplog.at_level(logging.WARNING):
        assert receiver.receive() == ["one"]
        assert receiver.receive() == ["two"]
    [line] = [record.getMessage() for record in caplog.records if "BLMPOP" in record.getMessage()]
    assert line.startswith("this worker receives one message at a time, because the broker refuses BLMPOP: ")


def test_a_type_error_of_the_broker_is_raised(receive: Callable[..., Receiver]) -> None:
    receiver = receive("wrong", 3)
    with receiver.channel.conn_or_acquire() as client:
        client.set(receiver.queues[0], "no list")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            receiver.receive()
        client.delete(receiver.queues[0])
    receiver.send("one", "two")
    assert receiver.receive() == ["one", "two"]


def test_keys_with_a_prefix_are_asked_for_one_message_at_a_time(receive: Callable[..., Receiver]) -> None:
    receiver = receive("prefixed", 3, global_keyprefix="shop:")
    receiver.send("one", "two")
    assert [list(receiver.receive()) for _ in range(2)] == [["one"], ["two"]]


def test_a_broker_that_does_not_answer_in_time_is_disconnected(
    receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive("silent", 3)
    receiver.transport.cycle.on_poll_start()
    connection = receiver.channel.client.connection
    later = time.monotonic() + 1000
    monkeypatch.setattr("kombu.transport.redis.monotonic", lambda: later)
    receiver.transport.cycle.maybe_check_brpop_health()
    assert connection._sock is None
    monkeypatch.undo()
    receiver.send("one")
    assert receiver.receive() == ["one"]


def test_an_answer_that_arrives_with_an_error_of_its_connection_is_delivered(receive: Callable[..., Receiver]) -> None:
    receiver = receive("late", 3)
    receiver.transport.cycle.on_poll_start()
    receiver.send("one")
    receiver.channel._poll_error("BRPOP")
    assert receiver.received == ["one"]
