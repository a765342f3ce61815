"""The lengths of queues, as metrics and displays show them, and the lists of Redis that workers read."""

from typing import Any

import pytest
from celery import Celery
from redis import Redis

from roboco.broker.app import app_settings, create_app
from roboco.broker.dispatcher import CeleryDispatcher
from roboco.broker.names import QUEUES
from roboco.broker.queues import queue_lengths, redis_lists
from roboco.local.valkey import ValkeyServer
from roboco.ports.assignment import TurnAssignment

pytestmark = pytest.mark.redis


def test_the_length_of_a_queue_includes_the_lanes_of_tenants(valkey: ValkeyServer) -> None:
    with Redis.from_url(valkey.url) as client, create_app(app_settings(valkey.url)) as app:
        client.flushdb()
        for task_id in ("task_1", "acme:t", "other:t"):
            CeleryDispatcher(app).turn(TurnAssignment(task_id, 3, 7, 1), "writer")
        assert queue_lengths(app) == dict.fromkeys(QUEUES, 0) | {"roboco.agents": 3}


def test_workers_read_each_list_of_a_producer_with_other_priority_steps(
    valkey: ValkeyServer,
) -> None:
    for steps in ({}, *({"priority_steps": steps} for steps in ([0, 3, 6, 9], list(range(10)), [0, 5]))):
        with Celery(broker=valkey.url) as shop:
            shop.conf.broker_transport_options = steps
            with shop.connection_for_write() as connection:
                channel: Any = connection.default_channel
                used = {channel._q_for_pri("roboco.coordinator", priority) for priority in range(11)}
        assert used <= set(redis_lists("roboco.coordinator"))
