"""The lengths of queues, as metrics and displays show them."""

import pytest
from redis import Redis

from roboco.broker.app import app_settings, create_app
from roboco.broker.dispatcher import CeleryDispatcher
from roboco.broker.names import QUEUES
from roboco.broker.queue_stats import queue_lengths
from roboco.local.valkey import ValkeyServer
from roboco.ports.assignment import TurnAssignment

pytestmark = pytest.mark.redis


def test_the_length_of_a_queue_includes_the_lanes_of_tenants(valkey: ValkeyServer) -> None:
    with Redis.from_url(valkey.url) as client, create_app(app_settings(valkey.url)) as app:
        client.flushdb()
        for task_id in ("task_1", "acme:t", "other:t"):
            CeleryDispatcher(app).turn(TurnAssignment(task_id, 3, 7, 1), "writer")
        assert queue_lengths(app) == dict.fromkeys(QUEUES, 0) | {"roboco.agents": 3}
