"""One task on each implementation of the ports, each test under its own key prefix."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.local.valkey import ValkeyServer, find_server
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from tests.conftest import need
from tests.contract.redis.double_sending import DoubleSendingRedis
from tests.contract.redis.task_in_memory import TaskInMemory
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.support.servers.cluster import Cluster


@pytest.fixture
def client(valkey: ValkeyServer) -> Iterator[redis.Redis]:
    """Yield a client of the Redis server, connected as in the product."""
    with connect(valkey.url) as client:
        yield client


@pytest.fixture(scope="session")
def cluster_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """Yield a client of a Redis Cluster of three nodes, connected as in the product."""
    need(find_server)
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster, connect(cluster.url) as client:
        yield client


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster whose nodes the tests of a file hang or kill."""
    need(find_server)
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def redis_task(client: redis.Redis, prefix: str) -> TaskOnRedis:
    """Return a task that does not exist yet."""
    return TaskOnRedis(client, Keys(prefix))


@pytest.fixture(
    params=[
        pytest.param("redis, all sent twice", marks=pytest.mark.redis),
        pytest.param("cluster", marks=pytest.mark.redis),
        "memory",
    ]
)
def task(request: pytest.FixtureRequest, prefix: str) -> Iterator[TaskUnderTest]:
    """Yield a task that does not exist yet. Where one server holds it, the client sends every command twice."""
    if request.param == "memory":
        yield TaskInMemory()
    elif request.param == "cluster":
        yield TaskOnRedis(request.getfixturevalue("cluster_client"), Keys(prefix))
    else:
        server: ValkeyServer = request.getfixturevalue("valkey")
        with DoubleSendingRedis.from_url(server.url, decode_responses=True) as client:
            task = TaskOnRedis(client, Keys(prefix))
            # If the answer to a claim is lost, its entries are due again later: a second claim gets others.
            once = TaskOnRedis(request.getfixturevalue("client"), Keys(prefix))
            task.schedule.claim = once.schedule.claim  # type: ignore[method-assign]
            yield task


@pytest.fixture(params=["silent", "gone"])
def unreachable_task(request: pytest.FixtureRequest, prefix: str) -> Iterator[TaskOnRedis]:
    """Yield a task on a Redis that accepts connections and never answers, or that has stopped."""
    limits: dict[str, Any] = {"socket_timeout": 0.03, "socket_connect_timeout": 0.03, "retry": Retry(NoBackoff(), 0)}
    with socket.socket() as reserved:  # reserves the port, so that no other process listens on it
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        if request.param == "silent":
            reserved.listen()
        with redis.Redis(port=port, decode_responses=True, **limits) as client:
            yield TaskOnRedis(client, Keys(prefix))
