"""Signed messages: what a neighbour can do who writes to the broker and has no key."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.adapters.celery.app import app_settings, create_app
from roboco.adapters.celery.names import AGENTS_QUEUE, TOOL_TASK, TURN_TASK, queue_lanes
from tests.integration.broker.test_consumer import GOOD, Bench, until
from tests.support.documents import example

pytestmark = [pytest.mark.redis, pytest.mark.workers]

OLD, NEW = "o" * 32, "n" * 32


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    try:
        bench.start_broker()
        yield bench
    finally:
        bench.close()


def reasons(bench: Bench) -> dict[str, str]:
    """Why each message was buried, by its case."""
    return {record["headers"].get("case", "?"): record["reason"] for record in bench.dead()}


def copies(bench: Bench) -> list[dict[str, Any]]:
    """The messages that stand in the queue."""
    return [json.loads(one) for one in bench.redis.lrange(AGENTS_QUEUE, 0, -1)]


def test_who_has_no_key_cannot_have_workers_act(bench: Bench) -> None:
    with create_app(app_settings(bench.url, keys=(NEW,))) as trusted:
        trusted.send_task(TURN_TASK, ["right"])
    with create_app(app_settings(bench.url, keys=("x" * 32,))) as stranger:
        stranger.send_task(TURN_TASK, ["wrong key"], headers={"case": "wrong key"})
    bench.push(GOOD | {"case": "none"})
    [right] = [one for one in copies(bench) if "case" not in one["headers"]]
    changes: dict[str, dict[str, Any]] = {
        "task": {"headers": right["headers"] | {"task": "test.hold"}},
        "id": {"headers": right["headers"] | {"id": "another"}},
        "timelimit": {"headers": right["headers"] | {"timelimit": [1, 1]}},
        "eta": {"headers": right["headers"] | {"eta": "2020-01-01T00:00:00"}},
        "expires": {"headers": right["headers"] | {"expires": "2020-01-01T00:00:00"}},
        "body": {"body": "W1sid3JvbmciXSwge30sIHt9XQ=="},
        "no text": {"headers": right["headers"] | {"roboco_signature": ["a"]}},
    }
    for case, change in changes.items():
        forged = right | change
        forged["properties"] = right["properties"] | {"delivery_tag": case}
        bench.redis.lpush(AGENTS_QUEUE, json.dumps(forged | {"headers": forged["headers"] | {"case": case}}))

    bench.start_worker("threads", keys=f"{NEW},{OLD}")
    with create_app(app_settings(bench.url, keys=(OLD, NEW))) as rotating:
        rotating.send_task(TURN_TASK, ["old"])
    until(lambda: sorted(bench.lines("ran")) == ["old", "right"])
    until(bench.settled)
    buried = reasons(bench)
    assert sorted(buried) == sorted(
        ["none", "no text", "wrong key", "task", "id", "timelimit", "eta", "expires", "body"]
    )
    assert all("not signed" in buried.pop(case) for case in ("none", "no text"))
    assert set(buried.values()) == {"signed with no key of ROBOCO_SIGNING_KEYS, or changed since"}
    assert sorted(bench.lines("ran")) == ["old", "right"]


def test_remote_control_can_only_ask(bench: Bench) -> None:
    worker = bench.start_worker("threads", keys=NEW)
    until(lambda: bench.app.control.ping(timeout=1, limit=1))  # it says that it is ready before it listens to them
    asked: dict[str, dict[str, Any]] = {
        "shutdown": {},
        "cancel_consumer": {"queue": AGENTS_QUEUE},
        "revoke": {"task_id": "1", "terminate": True},
        "hello": {"from_node": "x", "revoked": {"1": 1}},
    }
    for command, arguments in asked.items():
        [answer] = bench.app.control.broadcast(command, arguments, reply=True, timeout=20, limit=1) or [{}]
        assert "refused: this worker accepts signed messages only" in json.dumps(answer)
    [queues] = (bench.app.control.inspect(timeout=20, limit=1).active_queues() or {}).values()
    assert [queue["name"] for queue in queues] == list(queue_lanes(AGENTS_QUEUE))
    [settings] = (bench.app.control.inspect(timeout=20, limit=1).conf() or {}).values()
    assert NEW not in json.dumps(settings)
    assert worker.poll() is None


def test_what_is_for_another_pool_does_not_run(bench: Bench) -> None:
    """A tool call in the agents queue would run beside the keys of models; celery.map would run anything."""
    bench.start_worker("threads")
    bench.push({"id": "1", "task": TOOL_TASK, "case": "tool"})
    bench.push({"id": "2", "task": "celery.map", "case": "map"}, b'[[{"task": "roboco.turn"}, [["x"]]], {}, {}]')
    until(lambda: len(bench.dead()) == 2)
    assert all("this worker has no Celery task" in reason for reason in reasons(bench).values())


def test_a_producer_signs_with_the_lines_of_the_documentation(bench: Bench) -> None:
    (bench.folder / "signing.py").write_text(example("file", "signing.py"))
    sending = (
        f"Celery(broker={bench.url!r}).send_task({TURN_TASK!r}, ['signed ü'], queue={AGENTS_QUEUE!r}, time_limit=9)"
    )
    command = [sys.executable, "-c", f"import signing; from celery import Celery; {sending}"]
    environment = os.environ | {"ROBOCO_SIGNING_KEYS": f"{NEW}, {OLD}", "PYTHONPATH": str(bench.folder)}
    subprocess.run(command, env=environment, check=True)
    bench.start_worker("threads", keys=NEW)
    until(lambda: bench.lines("ran") == ["signed ü"] or bench.dead())
    assert bench.dead() == []
