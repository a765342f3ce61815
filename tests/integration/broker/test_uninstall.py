"""The commands of `roboco/docs/uninstall.md` leave nothing of Roboco in Redis and the broker."""

import re
from pathlib import Path

import pytest
import redis
from celery import Celery

from tests.support.documents import GUIDES
from tests.support.journeys import SEQUENTIAL, answer
from tests.support.stack import LONG_LEASE, Stack

pytestmark = [pytest.mark.workers, pytest.mark.slow]

PATTERN = re.compile(r"(?:--pattern |for pattern in )((?:'[^']+' ?)+)")
OF_CELERY = "_kombu."
"""The keys that belong to every Celery application of the database."""


def patterns() -> list[str]:
    page = (GUIDES / "uninstall.md").read_text()
    return [one for found in PATTERN.findall(page) for one in re.findall(r"'([^']+)'", found)]


def test_the_patterns_of_the_page_match_every_key(tmp_path: Path) -> None:
    with Stack(tmp_path, lease_seconds=LONG_LEASE) as stack:
        stack.model.script(answer)
        task = stack.orchestrator.run(SEQUENTIAL.team, SEQUENTIAL.prompt, tenant="acme")
        assert task.result(60).status == "completed"
        stack.orchestrator.run(SEQUENTIAL.team, SEQUENTIAL.prompt, conversation=True).result(60)
        with Celery(broker=stack.settings.broker) as shop:  # declares the queue, and leaves a message and a dead letter
            shop.send_task("roboco.submit", kwargs={"team": 1}, queue="roboco.coordinator")
            shop.send_task("roboco.submit", queue="roboco.tools.3", priority=9)
        stack._stop_workers()
        with redis.Redis.from_url(stack.settings.redis_url, decode_responses=True) as client:
            assert patterns() == ["roboco:*", "roboco.*", "_kombu.binding*.roboco.*"]
            for pattern in patterns():
                found = list(client.scan_iter(pattern))
                assert found, f"{pattern} matches no key"
                client.unlink(*found)
            assert [key for key in client.scan_iter("*") if not str(key).startswith(OF_CELERY)] == []
            assert [key for key in client.scan_iter("*") if "roboco" in str(key)] == []
