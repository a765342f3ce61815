"""Which lists of a broker no worker reads, and the setting of the producer that causes their names."""

from typing import Any

import pytest
from celery import Celery

from roboco.broker.app import app_settings, create_app
from roboco.broker.queue_stats import redis_lists
from roboco.broker.unread_lists import UnreadList, UnreadLists, _cause_of
from roboco.local.valkey import ValkeyServer


@pytest.mark.parametrize(
    ("name", "queue", "setting", "named"),
    [
        ("shop:roboco.coordinator", "roboco.coordinator", "global_keyprefix", "'shop:'"),
        ("shop:roboco.coordinator\x06\x163", "roboco.coordinator", "global_keyprefix", "'shop:'"),
        ("roboco.coordinator:9", "roboco.coordinator", "sep", "':'"),
        ("roboco.agents.3--6", "roboco.agents.3", "sep", "'--'"),
        ("roboco.coordinator\x06\x1612", "roboco.coordinator", "priority_steps", "0 to 9"),
        ("roboco.coordinator\x06\x16255", "roboco.coordinator", "priority_steps", "0 to 9"),
        ("roboco.coordinators", "roboco.coordinator", "queue", "'roboco.coordinators'"),
        ("roboco.coordinator.x", "roboco.coordinator", "queue", "'roboco.coordinator.x'"),
    ],
)
def test_a_list_that_no_worker_reads_names_its_cause(name: str, queue: str, setting: str, named: str) -> None:
    cause = _cause_of(name)
    assert cause is not None
    assert cause[:2] == (queue, setting)
    assert named in cause[2]


def test_the_command_that_moves_messages_quotes_the_name_for_redis_cli() -> None:
    one = UnreadList('a"\\ roboco.tools\x06\x1612é', 1, "roboco.tools", "sep", "")
    assert 'LMOVE "a\\x22\\x5c roboco.tools\\x06\\x1612\\xc3\\xa9" roboco.tools RIGHT LEFT' in one.move


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


@pytest.mark.redis
def test_a_search_finds_the_lists_of_other_producers_page_by_page(valkey: ValkeyServer) -> None:
    with create_app(app_settings(valkey.url)) as app, app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        client = channel.client
        client.lpush("roboco.coordinator:9", "x", "y")
        client.lpush("\xff:roboco.tools".encode("latin-1"), "x")
        client.set("shop:roboco.agents", "no list")
        try:
            lists = UnreadLists(app)
            while not lists.search(1):
                pass
            assert [(one.name, one.waiting, one.setting) for one in lists.found()] == [
                ("roboco.coordinator:9", 2, "sep"),
                ("\udcff:roboco.tools", 1, "global_keyprefix"),
            ]
            client.delete("roboco.coordinator:9", "\xff:roboco.tools".encode("latin-1"))
            assert lists.found() == []
        finally:
            client.delete("roboco.coordinator:9", "\xff:roboco.tools".encode("latin-1"), "shop:roboco.agents")
