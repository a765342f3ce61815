"""The adapters of each port, on real servers, each test under names of its own."""

import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.adapters.local.seaweed import S3Server
from roboco.adapters.local.valkey import ValkeyServer, find_server
from roboco.adapters.model.openai_model import OpenAIModel
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.folder_history import FolderHistories
from roboco.adapters.workspace.s3 import S3Files, connect_s3
from roboco.adapters.workspace.s3_history import S3Histories
from roboco.ports.workspace import Files, Histories
from tests.conftest import need
from tests.contract.a_task import ATask
from tests.contract.asking import KEY
from tests.contract.s3_faults import WatchedObjects
from tests.contract.sent_twice import SentTwice
from tests.contract.task_in_memory import TaskInMemory
from tests.contract.task_on_redis import TaskOnRedis
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.support.servers.cluster import Cluster
from tests.support.servers.model_server import ModelServer
from tests.support.stack import s3_environment, until

STORES = ["folder", pytest.param("s3", marks=pytest.mark.s3)]


@pytest.fixture
def prefix() -> str:
    """A name that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def s3_client(s3: S3Server) -> Iterator[Any]:
    """A client of the S3 server, as the product makes it."""
    with s3_environment(s3):
        client = connect_s3(s3.endpoint_url)
    yield client
    client.close()


@pytest.fixture
def objects(s3: S3Server, s3_client: Any, prefix: str) -> WatchedObjects:
    """Objects below this test's prefix."""
    return WatchedObjects(s3_client, s3.bucket, prefix)


@pytest.fixture(params=[*STORES, "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """An empty workspace."""
    if request.param == "folder":
        return FolderFiles(tmp_path / "workspace")
    if request.param == "memory":
        return MemoryFiles()
    return S3Files(request.getfixturevalue("objects"))


@pytest.fixture(params=[*STORES, "memory"])
def histories(request: pytest.FixtureRequest, tmp_path: Path) -> Histories:
    """Histories of an empty workspace."""
    if request.param == "folder":
        return FolderHistories(FolderFiles(tmp_path / "workspace"))
    if request.param == "memory":
        return MemoryHistories()
    return S3Histories(request.getfixturevalue("objects"))


@pytest.fixture
def client(valkey: ValkeyServer) -> Iterator[redis.Redis]:
    """A client of the Redis server, as the product makes it."""
    with connect(valkey.url) as client:
        yield client


@pytest.fixture(scope="session")
def cluster_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A client of a Redis Cluster of three nodes, as the product makes it."""
    need(find_server)
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster, connect(cluster.url) as client:
        yield client


@pytest.fixture
def redis_task(client: redis.Redis, prefix: str) -> TaskOnRedis:
    """A task that is not there yet."""
    return TaskOnRedis(client, Keys(prefix))


@pytest.fixture(
    params=[
        pytest.param("redis", marks=pytest.mark.redis),
        pytest.param("redis, all sent twice", marks=pytest.mark.redis),
        pytest.param("cluster", marks=pytest.mark.redis),
        "memory",
    ]
)
def task(request: pytest.FixtureRequest, prefix: str) -> Iterator[ATask]:
    """A task that is not there yet. No test may notice that every command is sent twice."""
    if request.param == "memory":
        yield TaskInMemory()
    elif request.param == "redis":
        yield request.getfixturevalue("redis_task")
    elif request.param == "cluster":
        yield TaskOnRedis(request.getfixturevalue("cluster_client"), Keys(prefix))
    else:
        server: ValkeyServer = request.getfixturevalue("valkey")
        with SentTwice.from_url(server.url, decode_responses=True) as client:
            yield TaskOnRedis(client, Keys(prefix))


@pytest.fixture(params=["silent", "gone"])
def unreachable_task(request: pytest.FixtureRequest, prefix: str) -> Iterator[TaskOnRedis]:
    """A task on a Redis that never answers, or is not there any more."""
    limits: dict[str, Any] = {"socket_timeout": 0.03, "socket_connect_timeout": 0.03, "retry": Retry(NoBackoff(), 0)}
    with socket.socket() as held:  # so that the port stays ours, also where nobody listens at it
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        if request.param == "silent":
            held.listen()
        with redis.Redis(port=port, decode_responses=True, **limits) as client:
            yield TaskOnRedis(client, Keys(prefix))


@pytest.fixture(scope="module")
def models() -> Iterator[Callable[..., OpenAIModel]]:
    """Makes models, and takes down what each keeps for the life of its process: a loop and connections."""
    made: list[OpenAIModel] = []

    def make(**options: Any) -> OpenAIModel:
        made.append(OpenAIModel(**options))
        return made[-1]

    yield make
    for model in made:
        take_down(model)


def take_down(model: OpenAIModel) -> None:
    """Close the connections and end the loop."""

    async def close() -> None:
        for client in model._clients.values():
            await client.close()

    assert model._loop.submit(close()).ended.wait(5)
    loop = model._loop._loop
    assert loop is not None
    loop.call_soon_threadsafe(loop.stop)
    until(lambda: not loop.is_running(), 5, "the loop has ended")
    loop.close()


@pytest.fixture(scope="module")
def model(models: Callable[..., OpenAIModel]) -> OpenAIModel:
    """One for all tests, that does not wait long before it tries again."""
    return models(retry_delay=0.01)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The server that OPENAI_BASE_URL names; it must find nothing wrong with the requests."""
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server
        assert server.violations == []
