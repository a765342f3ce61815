"""Signed messages: the effects of a client that writes to the broker and has no key."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.broker.app import app_settings, create_app
from roboco.broker.names import AGENTS_QUEUE, TOOL_TASK, TURN_TASK, queue_lanes
from tests.integration.broker.test_consumer import GOOD, ConsumerStack, until
from tests.support.documents import example

pytestmark = [pytest.mark.redis, pytest.mark.workers]

OLD, NEW = "o" * 32, "n" * 32


@pytest.fixture
def consumer_stack(tmp_path: Path) -> Iterator[ConsumerStack]:
    consumer_stack = ConsumerStack(tmp_path)
    try:
        consumer_stack.start_broker()
        yield consumer_stack
    finally:
        consumer_stack.close()


def reasons(consumer_stack: ConsumerStack) -> dict[str, str]:
    """Return the reason of each dead letter, by its case."""
    return {record["headers"].get("case", "?"): record["reason"] for record in consumer_stack.dead_letters()}


def queued_messages(consumer_stack: ConsumerStack) -> list[dict[str, Any]]:
    """Return the messages in the queue."""
    return [json.loads(one) for one in consumer_stack.redis.lrange(AGENTS_QUEUE, 0, -1)]


def test_messages_without_a_valid_signature_are_dead_letters(consumer_stack: ConsumerStack) -> None:
    with create_app(app_settings(consumer_stack.url, keys=(NEW,))) as trusted:
        trusted.send_task(TURN_TASK, ["right"])
    with create_app(app_settings(consumer_stack.url, keys=("x" * 32,))) as stranger:
        stranger.send_task(TURN_TASK, ["wrong key"], headers={"case": "wrong key"})
    consumer_stack.push(GOOD | {"case": "none"})
    [right] = [one for one in queued_messages(consumer_stack) if "case" not in one["headers"]]
    changes: dict[str, dict[str, Any]] = {
        "task": {"headers": right["headers"] | {"task": "test.hold"}},
        "body": {"body": "W1sid3JvbmciXSwge30sIHt9XQ=="},
    }
    for case, change in changes.items():
        forged = right | change
        forged["properties"] = right["properties"] | {"delivery_tag": case}
        consumer_stack.redis.lpush(AGENTS_QUEUE, json.dumps(forged | {"headers": forged["headers"] | {"case": case}}))

    consumer_stack.start_worker("threads", keys=f"{NEW},{OLD}")
    with create_app(app_settings(consumer_stack.url, keys=(OLD, NEW))) as rotating:
        rotating.send_task(TURN_TASK, ["old"])
    until(lambda: sorted(consumer_stack.lines("ran")) == ["old", "right"])
    until(consumer_stack.is_drained)
    by_case = reasons(consumer_stack)
    assert sorted(by_case) == ["body", "none", "task", "wrong key"]
    assert "not signed" in by_case.pop("none")
    assert set(by_case.values()) == {"signed with no key of ROBOCO_SIGNING_KEYS, or changed since"}
    assert sorted(consumer_stack.lines("ran")) == ["old", "right"]


def test_remote_control_can_only_inspect(consumer_stack: ConsumerStack) -> None:
    worker = consumer_stack.start_worker("threads", keys=NEW)
    # The worker logs "ready" before it listens for commands.
    until(lambda: consumer_stack.app.control.ping(timeout=1, limit=1))
    commands: dict[str, dict[str, Any]] = {
        "shutdown": {},
        "cancel_consumer": {"queue": AGENTS_QUEUE},
        "revoke": {"task_id": "1", "terminate": True},
        "hello": {"from_node": "x", "revoked": {"1": 1}},
    }
    for command, arguments in commands.items():
        [answer] = consumer_stack.app.control.broadcast(command, arguments, reply=True, timeout=60, limit=1) or [{}]
        assert "refused: this worker accepts signed messages only" in json.dumps(answer)
    [queues] = (consumer_stack.app.control.inspect(timeout=60, limit=1).active_queues() or {}).values()
    assert [queue["name"] for queue in queues] == list(queue_lanes(AGENTS_QUEUE))
    [settings] = (consumer_stack.app.control.inspect(timeout=60, limit=1).conf() or {}).values()
    assert NEW not in json.dumps(settings)
    assert worker.poll() is None


def test_a_message_for_another_pool_does_not_run(consumer_stack: ConsumerStack) -> None:
    """A tool call in the agents queue would run beside the keys of models; celery.map would run any task."""
    consumer_stack.start_worker("threads")
    consumer_stack.push({"id": "1", "task": TOOL_TASK, "case": "tool"})
    consumer_stack.push(
        {"id": "2", "task": "celery.map", "case": "map"}, b'[[{"task": "roboco.turn"}, [["x"]]], {}, {}]'
    )
    until(lambda: len(consumer_stack.dead_letters()) == 2)
    assert all("this worker has no Celery task" in reason for reason in reasons(consumer_stack).values())


def test_a_producer_signs_with_the_code_of_the_guide(consumer_stack: ConsumerStack) -> None:
    (consumer_stack.folder / "signing.py").write_text(example("file", "signing.py"))
    options = f"queue={AGENTS_QUEUE!r}, time_limit=9"
    sending = f"Celery(broker={consumer_stack.url!r}).send_task({TURN_TASK!r}, ['signed ü'], {options})"
    command = [sys.executable, "-c", f"import signing; from celery import Celery; {sending}"]
    environment = os.environ | {"ROBOCO_SIGNING_KEYS": f"{NEW}, {OLD}", "PYTHONPATH": str(consumer_stack.folder)}
    subprocess.run(command, env=environment, check=True)
    consumer_stack.start_worker("threads", keys=NEW)
    until(lambda: consumer_stack.lines("ran") == ["signed ü"] or consumer_stack.dead_letters())
    assert consumer_stack.dead_letters() == []
