"""Messages that are sent directly are Celery's own: the same as those of `send_task`, with the same event.

If a test fails after an upgrade of Celery or kombu, they send other messages than `direct_publish.py`: adapt it.
"""

import base64
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery, signals
from kombu.transport.redis import Channel as KombuChannel
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from roboco.adapters.celery import direct_publish, dispatcher
from roboco.adapters.celery.app import app_settings, create_app
from roboco.adapters.celery.broker import producer_settings
from roboco.adapters.celery.direct_publish import CONSUMER_SETTING, note_consumer, publish
from roboco.adapters.celery.dispatcher import CeleryDispatcher
from roboco.adapters.celery.message_signing import SIGNATURE_HEADER
from roboco.adapters.celery.transport import Channel
from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis.direct_calls import DirectCalls, LostConnectionError
from roboco.errors import TransientError
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment

pytestmark = pytest.mark.redis
Send = Callable[[CeleryDispatcher], None]
SENDS: dict[str, Send] = {
    "advance": lambda sender: sender.advance("task_1"),
    "notify": lambda sender: sender.notify("task_1"),
    "turn": lambda sender: sender.turn(TurnAssignment("task_1", 3, 7, 1), "writer"),
    "urgent turn of a tenant": lambda sender: sender.turn(TurnAssignment("acme:t", 3, 7, 1, "high"), "writer"),
    "tool": lambda sender: sender.tool(ToolAssignment("task_1", 3, 7, "call_1", 1, "low"), "search", 12.5),
    "listing": lambda sender: sender.list_tools(ListingRequest("task_1", "docs")),
}


@pytest.fixture(params=["transport of kombu", "transport of producers"])
def app(valkey: ValkeyServer, request: pytest.FixtureRequest) -> Iterator[Celery]:
    more = producer_settings(valkey.url) if request.param == "transport of producers" else {}
    with create_app(app_settings(valkey.url, keys=("k" * 32,)) | more) as app:
        with app.producer_or_acquire() as producer:
            assert producer.channel  # connected: the first message of a connection is Celery's own
        yield app


@pytest.fixture
def redis(valkey: ValkeyServer) -> Iterator[Redis]:
    with Redis.from_url(valkey.url) as client:
        client.flushdb()
        yield client


class Parent:
    """A Celery task that runs and sends others."""

    class request:  # noqa: N801  # named by Celery
        id, root_id = "parent", "root"

    def add_trail(self, result: object) -> None: ...


@pytest.mark.parametrize("parent", [None, Parent()])
@pytest.mark.parametrize("name", SENDS)
def test_a_direct_message_is_that_of_send_task(
    app: Celery, redis: Redis, name: str, parent: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(app), "current_worker_task", parent)
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.25)
    published: list[bool] = []
    monkeypatch.setattr(dispatcher, "publish", lambda *args, **options: noted(published, *args, **options))
    direct, event = sent(app, redis, SENDS[name])
    assert published == [True]
    monkeypatch.setattr(dispatcher, "publish", lambda *_, **__: False)
    standard, event_of_celery = sent(app, redis, SENDS[name])
    for repeated in ("argsrepr", "kwargsrepr"):  # Celery copies these headers into the properties, unread by all
        assert standard["properties"].pop(repeated) == standard["headers"][repeated]
    assert (direct, event) == (standard, event_of_celery)
    assert SIGNATURE_HEADER in direct["headers"]


@pytest.mark.parametrize("signal", [signals.before_task_publish, signals.after_task_publish, signals.task_sent])
def test_a_listener_of_celerys_signals_hears_of_every_message(app: Celery, redis: Redis, signal: Any) -> None:
    heard: list[object] = []

    def listen(sender: object, **_: object) -> None:
        heard.append(sender)

    signal.connect(listen)
    try:
        sent(app, redis, SENDS["turn"])
    finally:
        signal.disconnect(listen)
    assert heard == ["roboco.turn"]


def test_a_worker_sends_the_event_with_its_other_events(app: Celery, redis: Redis) -> None:
    with app.connection() as connection:
        events: Any = app.events
        batches = events.Dispatcher(connection, hostname="agents@here", buffer_group=["task"])
        worker = Worker(batches)
        note_consumer(app, worker)
        assert next(lists(redis), None) is None
        with following(redis) as followed:
            SENDS["turn"](CeleryDispatcher(app))
            assert events_of(followed) == []
            batches.flush()
            [[event]] = events_of(followed)
    own: Any = app.amqp
    assert (event["type"], event["hostname"]) == ("task-sent", own._event_dispatcher.hostname)
    assert (event["uuid"], event["queue"]) == ("task_1/0003/turn/1", "roboco.agents")


def test_a_child_process_sends_the_event_itself(app: Celery, redis: Redis) -> None:
    _, of_a_worker = app.conf.get(CONSUMER_SETTING) or (0, None)
    app.conf[CONSUMER_SETTING] = os.getpid() + 1, lambda: pytest.fail("the consumer of another process is used")
    _, event = sent(app, redis, SENDS["turn"])
    assert (of_a_worker, event["type"]) == (None, "task-sent")


def test_a_broker_that_does_not_answer_is_tried_again_as_celery_does(
    app: Celery, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RedisConnectionError("lost")

    monkeypatch.setattr(direct_publish, "_push", fail)
    message, event = sent(app, redis, SENDS["turn"])
    assert message["headers"]["id"] == event["uuid"]


def test_a_broker_that_never_answers_is_a_transient_error() -> None:
    with create_app(app_settings("redis://127.0.0.1:1")) as app, pytest.raises(TransientError):
        SENDS["turn"](CeleryDispatcher(app))


def test_a_producer_publishes_an_event_over_a_kept_connection(
    app: Celery, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If that connection is lost, kombu's client publishes the event."""
    kombus: Any = KombuChannel
    put, used = kombus._put_fanout, list[str]()

    def noted_put(self: Any, *args: Any, **options: Any) -> None:
        used.append("kombu")
        put(self, *args, **options)

    def lose(*_: object) -> None:
        used.append("direct")
        raise LostConnectionError("lost")

    monkeypatch.setattr(KombuChannel, "_put_fanout", noted_put)
    with app.producer_or_acquire() as producer:
        is_own = isinstance(producer.channel, Channel)
    assert sent(app, redis, SENDS["turn"])[1]["type"] == "task-sent"
    assert used == ([] if is_own else ["kombu"])
    used.clear()
    monkeypatch.setattr(DirectCalls, "call", lose)
    assert sent(app, redis, SENDS["turn"])[1]["type"] == "task-sent"
    assert used == (["direct", "direct", "kombu"] if is_own else ["kombu"])


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "amqp://127.0.0.1:1"])
def test_only_celery_connects_to_the_broker(url: str) -> None:
    """It tries a broker that refuses connections for less than a second. A channel's own attempts take six."""
    with create_app(app_settings(url)) as app, app.producer_or_acquire() as producer:
        assert not publish(app, producer, "roboco.turn", {}, "task_1/0001/turn/1", "roboco.agents", headers={})
        assert not producer.connection.connected


def noted(published: list[bool], *args: Any, **options: Any) -> bool:
    """Publish, and note what `publish` returns."""
    published.append(publish(*args, **options))
    return published[-1]


class Worker:
    """A consumer with its dispatcher of events."""

    def __init__(self, event_dispatcher: object) -> None:
        self.event_dispatcher = event_dispatcher


def sent(app: Celery, redis: Redis, send: Send) -> tuple[dict[str, Any], dict[str, Any]]:
    """The message in its list, and its event, without the fields that differ each time."""
    with following(redis) as followed:
        send(CeleryDispatcher(app))
        [name] = lists(redis)
        [event] = events_of(followed)
    raw: Any = redis.rpop(name)
    message = json.loads(raw)
    del message["properties"]["delivery_tag"]
    del event["clock"], event["timestamp"]
    return message | {"list": name}, event


@contextmanager
def following(redis: Any) -> Iterator[Any]:
    """A subscription to the events of Celery."""
    with redis.pubsub(ignore_subscribe_messages=True) as followed:
        followed.psubscribe("*celeryev*")
        yield followed


def lists(redis: Redis) -> Iterator[str]:
    keys: Any = redis.keys("roboco.*")
    return (key.decode() for key in keys if redis.type(key) == b"list")


def events_of(followed: Any) -> list[Any]:
    """The events that have been published until now."""
    found = []
    while message := followed.get_message(timeout=0.3) or followed.get_message(timeout=0.3):
        found.append(json.loads(base64.b64decode(json.loads(message["data"])["body"])))
    return found


@pytest.mark.parametrize("name", SENDS)
def test_a_send_holds_at_most_one_connection_of_the_pool(valkey: ValkeyServer, name: str) -> None:
    """Threads that each held one and waited for a second one would wait for each other forever."""
    with create_app(app_settings(valkey.url) | {"broker_pool_limit": 1}) as app:
        thread = threading.Thread(target=SENDS[name], args=(CeleryDispatcher(app),), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
