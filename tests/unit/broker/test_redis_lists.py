"""The lists of a broker that workers read."""

from typing import Any

import pytest
from celery import Celery

from roboco.broker.queue_stats import redis_lists
from roboco.local.valkey import ValkeyServer


@pytest.mark.redis
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
