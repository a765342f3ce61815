"""Journeys over servers that are secured: Redis users with least privileges, and TLS before every server."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.adapters.local.seaweed import S3Server
from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.follower import RedisFollower
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.position import Position
from roboco.adapters.workspace.open import open_workspace
from roboco.client.wiring import producer as producer_of
from roboco.errors import TransientError
from roboco.settings import Settings
from tests.journeys import GRAPH, JOURNEYS, Journey, answer, shape
from tests.servers.certificates import Certificates
from tests.servers.tls_gate import TlsGate
from tests.stack import ROOT, Stack, s3_environment, until

pytestmark = pytest.mark.workers
USERS = ROOT / "deploy" / "redis-users.acl"
PASSWORD = "a p@ss:word/of 17"


def users() -> Iterator[tuple[str, list[str]]]:
    """The names and rules of the users in the example, with the tests' password."""
    for line in USERS.read_text().splitlines():
        _, name, *rules = line.replace("REPLACE-THIS", PASSWORD.replace(" ", "\\0")).split()
        yield name, [rule.replace("\\0", " ") for rule in rules]


@contextmanager
def with_users(valkey: ValkeyServer) -> Iterator[dict[str, Any]]:
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        for name, rules in users():
            if name != "default":
                client.execute_command("ACL", "SETUSER", name, *rules)
        yield {"redis_url": url_of(valkey, "roboco")}


def url_of(valkey: ValkeyServer, user: str) -> str:
    password = "".join(f"%{byte:02x}" for byte in PASSWORD.encode())
    return valkey.url.replace("//", f"//{user}:{password}@")


@pytest.fixture(scope="module")
def acl_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("acl"), around=with_users) as stack:
        stack.model.script(answer)
        yield stack


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_journey_as_a_user_of_least_privileges(acl_stack: Stack, journey: Journey) -> None:
    task = acl_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.ends
    assert shape(task.history()) == journey.expected
    assert denied(acl_stack) == []


def test_what_that_user_may_not(acl_stack: Stack) -> None:
    with redis.Redis.from_url(acl_stack.settings.redis_url) as client:
        for command in ("FLUSHALL", "CONFIG GET *", "KEYS *", "MONITOR", "GET others", "PUBLISH others x"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
    with redis.Redis.from_url(acl_stack.valkey.url) as client:
        client.acl_log_reset()


def test_a_service_that_only_submits(acl_stack: Stack) -> None:
    task_id = f"task_{uuid.uuid4().hex}"
    producer = Celery(broker=url_of(acl_stack.valkey, "roboco-producer"), set_as_current=False)
    asked = {"task_id": task_id, "team": GRAPH.team.model_dump(mode="json", exclude_none=True), "prompt": GRAPH.prompt}
    producer.send_task("roboco.submit", kwargs=asked, queue="roboco.coordinator")
    producer.close()
    files = acl_stack.orchestrator.engine.files
    until(lambda: files.get(f"{task_id}/task.json"), 10, "the task was taken in")
    assert acl_stack.orchestrator.task(task_id).result(30).status == "completed"
    assert denied(acl_stack) == []


def test_a_service_that_only_follows(acl_stack: Stack) -> None:
    task = acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    url = url_of(acl_stack.valkey, "roboco-follower")
    with connect(url) as client:
        follower = RedisFollower(client, url, Keys(acl_stack.settings.prefix))
        told = (record for record in follower.follow(task.task_id, Position()) if record)
        assert "event_task_end" in (record["type"] for record in told)
        assert denied(acl_stack) == []
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.hset(Keys(acl_stack.settings.prefix).state(task.task_id), "status", "completed")
    with redis.Redis.from_url(acl_stack.valkey.url) as client:
        client.acl_log_reset()


def denied(stack: Stack) -> list[Any]:
    """What users were denied, as the server has noted it."""
    with redis.Redis.from_url(stack.valkey.url, decode_responses=True) as client:
        return list(client.acl_log())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_stack(certificates: Certificates, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Redis that wants a client's certificate, and S3, both of an authority that no machine knows."""

    @contextmanager
    def secured(valkey: ValkeyServer) -> Iterator[dict[str, Any]]:
        with (
            TlsGate(valkey.port, certificates.server("127.0.0.1", clients=True)) as redis_gate,
            TlsGate(s3.port, certificates.server("127.0.0.1")) as s3_gate,
        ):
            yield {
                "redis_url": f"rediss://127.0.0.1:{redis_gate.port}/0?{certificates.options()}",
                "s3_endpoint_url": f"https://127.0.0.1:{s3_gate.port}",
            }

    folder = tmp_path_factory.mktemp("tls")
    with (
        s3_environment(s3),
        environment(AWS_CA_BUNDLE=str(certificates.authority)),
        Stack(folder, s3=s3, around=secured) as stack,
    ):
        stack.model.script(answer)
        yield stack


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_journey_over_tls(tls_stack: Stack, journey: Journey) -> None:
    task = tls_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.ends
    assert shape(task.history()) == journey.expected


def test_redis_of_an_unknown_authority_is_not_spoken_to(tls_stack: Stack, certificates: Certificates) -> None:
    """Neither by the client of streams nor by Celery, whose own default is to believe everybody."""
    plain = tls_stack.settings.redis_url.partition("?")[0]
    for url in (plain, f"{plain}?ssl_ca_certs={certificates.stranger}"):
        with connect(url) as client, pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            client.ping()
        app = producer_of(Settings(redis_url=url))
        with app.connection_for_write() as connection, pytest.raises(Exception, match="certificate verify failed"):
            connection.ensure_connection(max_retries=1, interval_start=0)
        app.close()


def test_redis_wants_to_see_the_client_s_certificate(tls_stack: Stack, certificates: Certificates) -> None:
    plain = tls_stack.settings.redis_url.partition("?")[0]
    url = f"{plain}?ssl_ca_certs={certificates.authority}"
    with (
        redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(redis.ConnectionError),
    ):
        client.ping()


def test_a_store_of_an_unknown_authority_is_not_spoken_to(tls_stack: Stack, certificates: Certificates) -> None:
    with environment(AWS_CA_BUNDLE=str(certificates.stranger)):
        files = open_workspace(tls_stack.settings.workspace, tls_stack.settings.s3_endpoint_url, 2.0).files
        with pytest.raises(TransientError, match="certificate verify failed"):
            files.get("anything")
