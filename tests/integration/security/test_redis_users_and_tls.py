"""Journeys on secured servers: Redis users with least privileges, and TLS in front of every server."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco import Orchestrator
from roboco.adapters.celery.names import QUEUES
from roboco.adapters.local.seaweed import S3Server
from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.adapters.redis.stream.position import StreamPosition
from roboco.adapters.workspace.open import open_workspace
from roboco.client.wiring import producer_app as producer_of
from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.errors import TransientError
from roboco.settings import Settings
from tests.contract.redis.stream.publisher import no_archive
from tests.support.flower import flower
from tests.support.journeys import GRAPH, JOURNEYS, StackJourney, answer, shape
from tests.support.redis_users import PASSWORD, StackOfUsers, example_users, take_denials, url_of
from tests.support.servers.certificates import Certificates
from tests.support.servers.tls_gate import TlsGate
from tests.support.stack import POOLS, Stack, s3_environment, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]


@pytest.fixture(scope="module")
def acl_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with StackOfUsers(tmp_path_factory.mktemp("acl")) as stack:
        yield stack


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_journey_needs_only_the_rights_of_the_redis_users(acl_stack: Stack, journey: StackJourney) -> None:
    task = acl_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected
    assert take_denials(acl_stack) == set()


@pytest.mark.parametrize("pool", POOLS)
def test_the_health_check_of_a_worker_needs_only_the_rights_of_its_user(acl_stack: Stack, pool: str) -> None:
    health_file = acl_stack.folder / f"{pool}.json"
    until(
        lambda: health_file.exists() and json.loads(health_file.read_text()).get("problem", "") is None,
        30,
        health_file.read_text,
    )
    assert take_denials(acl_stack) == set()


@pytest.mark.parametrize("queue", QUEUES)
def test_a_message_that_no_worker_can_read_is_a_dead_letter(acl_stack: Stack, queue: str) -> None:
    before = len(acl_stack.orchestrator.dead_letters())
    with redis.Redis.from_url(acl_stack.valkey.url) as client:
        client.lpush(queue, f"no message of {queue}")
    until(lambda: len(acl_stack.orchestrator.dead_letters()) > before, 10, "the dead letter is stored")
    assert take_denials(acl_stack) == set()


def test_a_client_may_store_and_delete_dead_letters(acl_stack: Stack) -> None:
    orchestrator = acl_stack.orchestrator
    letter = dead_letter_of_lost_work("turn", "t", "writer, step 1", "lost", 5, orchestrator._engine.now())
    orchestrator._engine.dead_letters.add(letter)
    assert orchestrator.delete_dead_letter(letter.letter_id) == letter
    assert orchestrator.delete_dead_letter(letter.letter_id) is None
    assert take_denials(acl_stack) == set()


@pytest.mark.parametrize("command", ["dead-letters", "dead-letters delete --all", "top --once"])
def test_a_command_without_a_right_names_the_user_that_has_it(acl_stack: Stack, command: str) -> None:
    variables = acl_stack.environment | {"ROBOCO_REDIS_URL": url_of(acl_stack.valkey, "roboco-tools")}
    words = [sys.executable, "-m", "roboco.cli.main", *command.split()]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: Redis user 'roboco-tools' lacks a right that this command needs: ")
    assert "roboco-admin may run every command" in line
    assert PASSWORD not in done.stderr
    take_denials(acl_stack)


def test_flower_needs_only_the_rights_of_its_user(acl_stack: Stack) -> None:
    url = url_of(acl_stack.valkey, "roboco-flower")
    with flower(acl_stack, ROBOCO_REDIS_URL=url) as seen:
        task = acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
        assert task.result(30).status == "completed"
        until(lambda: seen.rows(task.task_id), 20, "Flower shows the task")
        assert "roboco.agents" in seen.get("/broker")
    assert take_denials(acl_stack) == set()


def test_a_producer_needs_only_the_right_to_submit(acl_stack: Stack) -> None:
    """It declares no queue, as README.md says, since a declaration would write bindings."""
    task_id = f"task_{uuid.uuid4().hex}"
    producer = Celery(broker=url_of(acl_stack.valkey, "roboco-producer"), set_as_current=False)
    arguments = {
        "task_id": task_id,
        "team": GRAPH.team.model_dump(mode="json", exclude_none=True),
        "prompt": GRAPH.prompt,
    }
    producer.send_task("roboco.submit", kwargs=arguments, queue="roboco.coordinator", declare=[])
    producer.close()
    files = acl_stack.orchestrator._engine.files
    until(lambda: files.get(f"{task_id}/task.json"), 10, "the submission is accepted")
    assert acl_stack.orchestrator.task(task_id).result(30).status == "completed"
    assert take_denials(acl_stack) == set()


@pytest.mark.parametrize(("user", "tenant"), [("roboco-follower", None), ("roboco-follower-acme", "acme")])
def test_a_follower_needs_only_the_right_to_read_logs(acl_stack: Stack, user: str, tenant: str | None) -> None:
    """The follower reads both logs from the start and live."""
    with Orchestrator(acl_stack.settings.model_copy(update={"tenant": tenant})) as submitting:
        task_id = submitting.run(GRAPH.team, GRAPH.prompt).task_id
    url = url_of(acl_stack.valkey, user)
    with connect(url) as client:
        follower = RedisFollower(client, url, Keys(acl_stack.settings.prefix), no_archive)
        seen = (record["type"] for record in follower.follow(task_id, StreamPosition()) if record)
        assert "event_task_end" in seen
        ends = follower.log_ends([task_id])[task_id]
    with connect(acl_stack.valkey.url) as client:
        state = client.hmget(Keys(acl_stack.settings.prefix).state(task_id), "generation", "events", "chunks")
    assert [ends.generation, str(ends.events), str(ends.chunks)] == state
    assert take_denials(acl_stack) == set()


def test_a_client_of_a_tenant_needs_only_the_rights_of_its_user(acl_stack: Stack) -> None:
    url = url_of(acl_stack.valkey, "roboco-client-acme")
    with Orchestrator(acl_stack.settings.model_copy(update={"tenant": "acme", "redis_url": url})) as client:
        task = client.run(GRAPH.team, GRAPH.prompt)
        assert [entry.task_id for entry in client.tasks()][:1] == [task.task_id]
        assert task.result(30).status == "completed"
    assert take_denials(acl_stack) == set()


def test_a_client_lists_the_tasks_of_all_tenants_with_the_rights_of_its_user(acl_stack: Stack) -> None:
    url = url_of(acl_stack.valkey, "roboco-client")
    with Orchestrator(acl_stack.settings.model_copy(update={"redis_url": url})) as client:
        tasks = [client.run(GRAPH.team, GRAPH.prompt, tenant=tenant) for tenant in ("acme", None)]
        listed = {entry.task_id for entry in client.tasks()}
        assert {task.task_id for task in tasks} <= listed
        for task in tasks:
            task.result(30)
        until(lambda: all(entry.status.ended for entry in client.tasks(text=GRAPH.prompt)), 10, "all tasks end")
    assert take_denials(acl_stack) == set()


ALL_USERS = {
    "coordinator",
    "agents",
    "tools",
    "client",
    "client-acme",
    "producer",
    "follower",
    "follower-acme",
    "flower",
}
WORKERS = {"coordinator", "agents", "tools"}
CLIENTS = {"client", "client-acme"}
ALLOWED: list[tuple[str, set[str]]] = [
    ("FLUSHALL", set()),
    ("CONFIG GET *", set()),
    ("KEYS *", set()),
    ("SCAN 0", set()),
    ("MONITOR", set()),
    ("ACL LIST", set()),
    ("GET others", set()),
    ("PUBLISH others x", set()),
    ("EVAL return{} 0", set()),
    ("FUNCTION LIST", set()),
    ("SCRIPT FLUSH", set()),
    ("SCRIPT LOAD return{}", {"coordinator"}),
    ("FUNCTION LOAD return{}", set()),
    ("FCALL f 0", set()),
    ("SADD _kombu.binding.celeryev x", WORKERS | {"flower"}),
    ("SADD _kombu.binding.roboco.coordinator x", set()),
    ("LPUSH roboco.coordinator x", WORKERS | CLIENTS | {"producer"}),
    ("LPUSH roboco.agents x", WORKERS | CLIENTS),
    ("LPUSH roboco.agents.health.x x", {"agents"}),
    ("RPOP roboco.coordinator", {"coordinator"}),
    ("RPOP roboco.agents", {"agents"}),
    ("RPOP roboco.tools", {"tools"}),
    ("LRANGE roboco.coordinator 0 -1", set()),
    ("LINDEX roboco.coordinator 0", {"coordinator"}),
    ("DEL roboco.coordinator", {"coordinator"}),
    ("DEL roboco.tools", {"tools"}),
    ("HGET roboco.unacked x", WORKERS),
    ("DEL roboco.unacked", set()),
    ("HGET roboco:{index}:entries x", {"coordinator", "client"}),
    ("ZRANGE roboco:{index}:order 0 -1", {"coordinator", "client"}),
    ("ZADD roboco:{index}:order 0 x", {"coordinator", "client"}),
    ("HGET roboco:{index}:tenant:acme:entries x", {"coordinator"} | CLIENTS),
    ("ZRANGE roboco:{index}:tenant:globex:order 0 -1", {"coordinator", "client"}),
    ("GET roboco:{index}:progress", {"coordinator"} | CLIENTS),
    ("SET roboco:{index}:progress x", {"coordinator"}),
    ("HGETALL roboco:{globex:1}:state", WORKERS | {"client"}),
    ("HGETALL roboco:{acme:1}:state", WORKERS | CLIENTS),
    ("LRANGE roboco:{globex:1}:tail 0 -1", WORKERS | {"client"}),
    ("SMEMBERS roboco:{globex:1}:inbox", WORKERS | {"client"}),
    ("XRANGE roboco:{globex:1}:events - +", WORKERS | {"client", "follower"}),
    ("XRANGE roboco:{acme:1}:events - +", WORKERS | CLIENTS | {"follower", "follower-acme"}),
    ("XADD roboco:{acme:1}:events * m x", WORKERS | CLIENTS),
    ("PUBLISH roboco:{acme:1}:events x", WORKERS | CLIENTS),
    ("PUBLISH /0.celery.pidbox x", WORKERS | {"flower"}),
    ("PUBLISH /0.celeryev/x x", WORKERS | CLIENTS | {"flower"}),
    ("PUBLISH roboco:signals x", WORKERS | CLIENTS),
    ("ZRANGE roboco:{schedule/3-41}:tasks 0 -1", {"coordinator"}),
    ("ZADD roboco:{schedule/3-41}:tasks 0 x", WORKERS | CLIENTS),
    ("ZREM roboco:{schedule/3-41}:tasks x", {"coordinator"}),
    ("ZREM roboco:{schedule/3-41}:jobs x", {"coordinator"}),
    ("DEL roboco:{schedule/3-41}:tasks", {"coordinator"}),
    ("SET roboco:{schedule/3-41}:tasks x", {"coordinator"}),
    ("EXPIRE roboco:{schedule/3-41}:tasks 0", {"coordinator"}),
    ("SET roboco:sentinel x", {"coordinator"}),
    ("HSET roboco:schedule_fill token x", {"coordinator"}),
    ("HGETALL roboco:{dead}:letters", {"coordinator", "client"}),
    ("GET roboco:{workers}:workspace", WORKERS | CLIENTS),
    ("SET roboco:{workers}:workspace x", {"coordinator"}),
    ("ZADD roboco:{workers}:coordinator 0 x", {"coordinator"}),
    ("ZADD roboco:{workers}:tools 0 x", {"tools"}),
    ("HSET roboco:{workers}:modules:agents x []", {"agents"}),
    ("ZRANGE roboco:{workers}:agents 0 -1", {"agents"} | CLIENTS),
    ("HSET roboco:{dead}:letters x x", WORKERS | {"client"}),
    ("HDEL roboco:{dead}:letters x", WORKERS | {"client"}),
    ("GET roboco:{rate:m}:paused_until", {"coordinator", "agents"}),
    ("SET roboco:{rate:m}:paused_until x", {"coordinator", "agents"}),
]
"""Each command, and the users that may run it."""


@pytest.mark.parametrize(("command", "users"), ALLOWED, ids=[command for command, _ in ALLOWED])
def test_only_the_listed_users_may_run_a_command(acl_stack: Stack, command: str, users: set[str]) -> None:
    words = command.split()
    with redis.Redis.from_url(acl_stack.valkey.url, decode_responses=True) as client:
        answers = {user: client.execute_command("ACL", "DRYRUN", f"roboco-{user}", *words) for user in ALL_USERS}
    assert {user for user, answer in answers.items() if answer == "OK"} == users


def test_every_user_of_the_acl_file_is_tested() -> None:
    tested = {f"roboco-{name}" for name in ALL_USERS | {"probe", "admin"}}
    assert {name for name, _ in example_users()} == {"default"} | tested


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_stack(certificates: Certificates, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield a stack over TLS with a private authority. Redis requires a client certificate."""

    @contextmanager
    def with_tls(valkey: ValkeyServer) -> Iterator[dict[str, Any]]:
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
        Stack(folder, s3=s3, around=with_tls) as stack,
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
def test_a_journey_over_tls_ends_with_the_expected_history(tls_stack: Stack, journey: StackJourney) -> None:
    task = tls_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected


def test_a_redis_certificate_of_an_unknown_authority_is_refused(tls_stack: Stack, certificates: Certificates) -> None:
    """The client of streams and Celery both verify it, although Celery's default is to accept any certificate."""
    plain = tls_stack.settings.redis_url.partition("?")[0]
    for url in (plain, f"{plain}?ssl_ca_certs={certificates.stranger}"):
        with connect(url) as client, pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            client.ping()
        app = producer_of(Settings(redis_url=url))
        with app.connection_for_write() as connection, pytest.raises(Exception, match="certificate verify failed"):
            connection.ensure_connection(max_retries=1, interval_start=0)
        app.close()


def test_redis_refuses_a_client_without_a_certificate(tls_stack: Stack, certificates: Certificates) -> None:
    plain = tls_stack.settings.redis_url.partition("?")[0]
    url = f"{plain}?ssl_ca_certs={certificates.authority}"
    with (
        redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(redis.ConnectionError),
    ):
        client.ping()


def test_an_s3_certificate_of_an_unknown_authority_is_refused(tls_stack: Stack, certificates: Certificates) -> None:
    with environment(AWS_CA_BUNDLE=str(certificates.stranger)):
        files = open_workspace(tls_stack.settings.workspace, tls_stack.settings.s3_endpoint_url, 2.0).files
        with pytest.raises(TransientError, match="certificate verify failed"):
            files.get("anything")
