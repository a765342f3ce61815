"""URLs of a Redis Cluster, and its client."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import redis

from roboco.domain.url import strip_credentials
from roboco.errors import TransientError
from roboco.redis.client import TIMEOUT, connect, connect_for_renewals
from roboco.redis.scripts import translating_errors

CLUSTER_URL = "rediss+cluster://user:p%40ss@one:7000,two:7001,three/?ssl_ca_certs=/ca.pem"


def test_a_displayed_cluster_url_contains_no_secret() -> None:
    assert strip_credentials(CLUSTER_URL).startswith("rediss+cluster://***@one:7000,two:7001,three/")


def test_a_cluster_client_connects_at_its_first_use() -> None:
    with connect("redis+cluster://127.0.0.1:1") as client, pytest.raises(TransientError), translating_errors():
        client.get("key")


def test_a_batch_for_a_cluster_that_hangs_waits_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis+cluster://127.0.0.1:{silent.getsockname()[1]}"
        with connect_for_renewals(url, 0.05) as client, client.pipeline(transaction=False) as batch:
            batch.get("one").get("two")
            assert [type(answer) for answer in batch.execute(raise_on_error=False)] == [redis.TimeoutError] * 2
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_the_nodes_of_a_cluster_that_hangs_are_asked_at_once() -> None:
    with ExitStack() as exits:
        servers = [exits.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        addresses = ",".join(f"127.0.0.1:{server.getsockname()[1]}" for server in servers)
        client = exits.enter_context(connect_for_renewals(f"redis+cluster://{addresses}", TIMEOUT))
        waiting = exits.enter_context(ThreadPoolExecutor(1)).submit(lambda: client.get("key"))
        for server in servers:
            server.settimeout(TIMEOUT - 1)
            exits.enter_context(server.accept()[0])
        assert not waiting.done()
        exits.close()
        assert isinstance(waiting.exception(), redis.ConnectionError)
