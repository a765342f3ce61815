"""The lists of a broker that workers read."""

from typing import Any

import pytest
from celery import Celery

from roboco.broker.queue_stats import redis_lists
from roboco.local.valkey import ValkeyServer


@pytest.mark.redis
@pytest.mark.parametrize("steps", [None, [0, 3, 6, 9], list(range(10)), [0, 5]], ids=str)
@pytest.mark.parametrize("priority", range(11))
def test_workers_read_each_list_of_a_producer_with_other_priority_steps(
    valkey: ValkeyServer, steps: list[int] | None, priority: int
) -> None:
    with Celery(broker=valkey.url) as shop:
        shop.conf.broker_transport_options = {} if steps is None else {"priority_steps": steps}
        with shop.connection_for_write() as connection:
            channel: Any = connection.default_channel
            name = channel._q_for_pri("roboco.coordinator", priority)
    assert name in redis_lists("roboco.coordinator")
