"""Addresses of a Redis Cluster."""

import pytest

from roboco.adapters.redis.client import connect
from roboco.adapters.redis.cluster import any_node_url, first_node_url, is_cluster, parse_nodes
from roboco.adapters.redis.scripts import translating_errors
from roboco.domain.url import strip_credentials
from roboco.errors import TransientError, UsageError
from roboco.settings import Settings

URL = "rediss+cluster://user:p%40ss@one:7000,two:7001,three/?ssl_ca_certs=/ca.pem"


def test_an_address_names_several_nodes_and_one_user() -> None:
    assert is_cluster(URL)
    assert Settings(redis_url=URL, broker_url="amqp://host").redis_url == URL
    assert any_node_url(URL).partition("@")[2].split("/")[0] in ("one:7000", "two:7001", "three:6379")
    assert parse_nodes(URL) == [("one", 7000), ("two", 7001), ("three", 6379)]
    assert first_node_url(URL) == "rediss://user:p%40ss@one:7000/?ssl_ca_certs=/ca.pem"


def test_what_is_shown_of_an_address_is_no_secret() -> None:
    assert strip_credentials(URL).startswith("rediss+cluster://***@one:7000,two:7001,three/")


def test_nothing_is_connected_before_its_first_use() -> None:
    with connect("redis+cluster://127.0.0.1:1") as client, pytest.raises(TransientError), translating_errors():
        client.get("key")


def test_a_wrong_address_names_the_setting() -> None:
    with pytest.raises(UsageError, match="ROBOCO_REDIS_URL"):
        connect("redis+cluster://host:port")
