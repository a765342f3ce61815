"""shop_answers: what a coordinator does with any message in the queue of answers on the shop's broker."""

from typing import Any
from uuid import uuid4

import pytest
from amqp.exceptions import PreconditionFailed
from celery import Celery
from kombu import Connection, Producer, Queue
from kombu.message import Message
from kombu.transport import TRANSPORT_ALIASES

from roboco.broker import transport
from roboco.broker.names import COORDINATOR_QUEUE, TASK_ANSWER_TASK, tenant_lanes
from roboco.workers import shop_answers
from roboco.workers.shop_answers import ShopAnswers

URL = "memory://"
ANSWER = {"task_id": "good:1", "call_id": "c", "secret": "s"}


@pytest.mark.parametrize("scheme", ["amqp", "amqps", "redis", "rediss", "sentinel"])
def test_no_message_of_a_shop_is_decompressed(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kombu.transport.TRANSPORT_ALIASES", dict(TRANSPORT_ALIASES))
    monkeypatch.setattr("kombu.transport._transport_cache", {})  # another test may have used kombu's own
    transport.guard_transports()  # as a worker does
    url = f"{scheme}://shop"
    answers = ShopAnswers(Celery("roboco", broker=URL, set_as_current=False), url, "answers")
    assert answers._shop.connection_for_read().get_transport_cls().__module__ == transport.__name__


class Relay:
    """Two brokers in the memory of this process: a queue of the shop, and the coordinators' queues."""

    def __init__(self) -> None:
        self.queue = f"{uuid4()}.answers"
        self.answers = ShopAnswers(Celery("roboco", broker=URL, set_as_current=False), URL, self.queue)
        self.lanes = [COORDINATOR_QUEUE, tenant_lanes(COORDINATOR_QUEUE, "good")[0]]
        with Connection(URL) as connection:
            channel: Any = connection.default_channel
            for name in (self.queue, *self.lanes):
                Queue(name, routing_key=name)(channel).declare()
                channel.queue_purge(name)

    def put(self, arguments: dict[str, Any], **headers: Any) -> None:
        """Put an answer into the queue of the shop."""
        whole = {"task": TASK_ANSWER_TASK, "id": "m1"} | headers
        with Connection(URL) as connection:
            connection.Producer().publish([["ok"], arguments, {}], routing_key=self.queue, headers=whole)

    def taken(self) -> list[Any]:
        """Return the messages that coordinators have got."""
        with Connection(URL) as connection:
            channel: Any = connection.default_channel
            found = (channel.basic_get(name, no_ack=True) for name in self.lanes * 3)
            return [message for message in found if message is not None]

    def left(self) -> int:
        with Connection(URL) as connection:
            channel: Any = connection.default_channel
            return int(channel.queue_declare(self.queue, passive=True).message_count)


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Relay:
    monkeypatch.setattr(shop_answers, "DRAINED_EVENTS", 2)
    return Relay()


@pytest.mark.parametrize("named", [5, None, {}, "no task"])
def test_an_answer_that_names_no_task_holds_up_no_other(relay: Relay, named: Any) -> None:
    relay.put(ANSWER | {"task_id": named})
    relay.put(ANSWER)
    relay.answers.run()
    assert [message.payload[1]["task_id"] for message in relay.taken()] == [named, "good:1"]
    assert relay.left() == 0


@pytest.mark.parametrize(
    ("error", "cause"),
    [(PreconditionFailed("message size 9 is larger than 8"), "larger than 8"), (KeyError("canary"), "KeyError\n")],
)
def test_an_answer_that_cannot_be_sent_is_dropped_with_its_cause(
    relay: Relay, error: Exception, cause: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    relay.put(ANSWER)
    relay.put(ANSWER, id="m2")
    publish = Producer.publish

    def refuse_one(self: Any, body: Any, **options: Any) -> Any:
        if options["headers"]["id"] == "m1":
            raise error
        return publish(self, body, **options)

    monkeypatch.setattr(Producer, "publish", refuse_one)
    relay.answers.run()
    assert [message.headers["id"] for message in relay.taken()] == ["m2"]
    assert cause in caplog.text
    assert "canary" not in caplog.text


def test_an_answer_is_not_acknowledged_while_the_broker_of_roboco_does_not_answer(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    relay.put(ANSWER)
    acknowledged: list[Any] = []

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("away")

    monkeypatch.setattr(Message, "ack", acknowledged.append)
    monkeypatch.setattr(Producer, "publish", fail)
    relay.answers.run()
    assert "answers of Celery tasks are not taken now: away" in caplog.text
    assert acknowledged == []


def test_headers_of_a_sender_do_not_reach_the_coordinators(relay: Relay) -> None:
    relay.put(ANSWER, origin="o", shadow="s", lang="x", retries=3, stamps={"a": 1}, id="é" * 200)
    relay.answers.run()
    [message] = relay.taken()
    assert message.headers == {"lang": "py", "task": TASK_ANSWER_TASK, "id": "é" * 200}
    assert "correlation_id" not in message.properties, "it would be too long for RabbitMQ"
