"""Journeys on secured servers: Redis users with least privileges, and TLS in front of every server."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from fastapi.testclient import TestClient

from roboco import Orchestrator
from roboco.broker.names import QUEUES
from roboco.client.blocking import iterate
from roboco.client.wiring import producer_app as producer_of
from roboco.domain.access_key import CallerLimits
from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.usage import day_of
from roboco.errors import TransientError
from roboco.gateway.app import create_app
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.settings import GatewaySettings
from roboco.local.seaweed import S3Server
from roboco.local.valkey import ValkeyServer
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.position import StreamPosition
from roboco.settings import Settings
from roboco.workspace.open import open_workspace
from tests.contract.redis.stream.publisher import no_archive
from tests.support import forked
from tests.support.flower import flower
from tests.support.journeys import GRAPH, JOURNEYS, PARALLEL, StackJourney, answer, shape
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
    before = len(acl_stack.orchestrator.operator.dead_letters())
    with redis.Redis.from_url(acl_stack.valkey.url) as client:
        client.lpush(queue, f"no message of {queue}")
    until(lambda: len(acl_stack.orchestrator.operator.dead_letters()) > before, 60, "the dead letter is stored")
    assert take_denials(acl_stack) == set()


@pytest.mark.parametrize("command", ["dead-letters", "dead-letters dismiss --all"])
def test_a_command_without_a_right_names_the_user_that_has_it(acl_stack: Stack, command: str) -> None:
    variables = acl_stack.environment | {"ROBOCO_REDIS_URL": url_of(acl_stack.valkey, "roboco-tools")}
    code, printed = forked.run_command(*command.split(), env=variables, folder=acl_stack.folder)
    assert code == 1
    [line] = printed.splitlines()
    assert "redis refuses a right to the user of ROBOCO_REDIS_URL: NOPERM" in line
    assert "roboco-admin may run every command" in line
    assert PASSWORD not in line
    take_denials(acl_stack)


def switch(stack: Stack, user: str, *words: str) -> tuple[int, str]:
    """Run `roboco switch` as the user of Redis. Return its exit code and what it prints."""
    variables = stack.environment | {"ROBOCO_REDIS_URL": url_of(stack.valkey, user)}
    return forked.run_command("switch", *words, env=variables, folder=stack.folder)


def test_only_the_documented_user_switches_work_off_by_command(acl_stack: Stack) -> None:
    """The command of another user changes neither the record nor the copy in Redis."""
    off, target = ("off", "team:graph", "--reason", "it is broken"), "team:graph"
    code, printed = switch(acl_stack, "roboco-client", *off)
    assert code == 1
    [line] = printed.splitlines()
    assert "redis refuses a right to the user of ROBOCO_REDIS_URL: NOPERM" in line
    assert "roboco-admin may run every command" in line
    assert acl_stack.orchestrator.operator.switches() == []
    assert take_denials(acl_stack)
    for user in ("roboco-admin", "roboco-gateway"):  # the gateway serves /v1/operations/switches
        assert switch(acl_stack, user, *off)[0] == 0
        assert [one.target for one in acl_stack.orchestrator.operator.switches()] == [target]
        with redis.Redis.from_url(acl_stack.valkey.url, decode_responses=True) as client:
            assert target in str(client.hget("roboco:switches", "switches"))
        assert "is switched on" in switch(acl_stack, user, "on", target)[1]
    assert acl_stack.orchestrator.operator.switches() == []
    assert take_denials(acl_stack) == set()


def test_flower_needs_only_the_rights_of_its_user(acl_stack: Stack) -> None:
    url = url_of(acl_stack.valkey, "roboco-flower")
    with flower(acl_stack, ROBOCO_REDIS_URL=url) as seen:
        task = acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
        assert task.result(60).status == "completed"
        until(lambda: seen.rows(task.task_id), 60, "Flower shows the task")
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
    files = acl_stack.orchestrator._engine.workspace.files
    until(lambda: files.get(f"{task_id}/task.json"), 60, "the submission is accepted")
    assert acl_stack.orchestrator.task(task_id).result(60).status == "completed"
    assert take_denials(acl_stack) == set()


@pytest.mark.parametrize(("user", "tenant"), [("roboco-follower", None), ("roboco-follower-acme", "acme")])
def test_a_follower_needs_only_the_right_to_read_logs(acl_stack: Stack, user: str, tenant: str | None) -> None:
    """The follower reads both logs from the start and live."""
    with Orchestrator(acl_stack.settings.model_copy(update={"tenant": tenant})) as submitting:
        task_id = submitting.run(GRAPH.team, GRAPH.prompt).task_id
    url = url_of(acl_stack.valkey, user)
    with connect(url) as client:
        follower = RedisFollower(client, url, Keys(acl_stack.settings.prefix), no_archive)
        records = iterate(AsyncFollower(follower).follow(task_id, StreamPosition()))
        assert "event_task_end" in (record["type"] for record in records if record)
        ends = follower.log_ends([task_id])[task_id]
    with connect(acl_stack.valkey.url) as client:
        state = client.hmget(Keys(acl_stack.settings.prefix).state(task_id), "generation", "events", "chunks")
    assert [ends.generation, str(ends.events), str(ends.chunks)] == state
    assert take_denials(acl_stack) == set()


def test_a_client_of_a_tenant_needs_only_the_rights_of_its_user(acl_stack: Stack) -> None:
    url = url_of(acl_stack.valkey, "roboco-client-acme")
    with Orchestrator(acl_stack.settings.model_copy(update={"tenant": "acme", "redis_url": url})) as client:
        task = client.run(GRAPH.team, GRAPH.prompt)
        assert task.task_id in [entry.task_id for entry in client.tasks()]
        assert task.result(60).status == "completed"
    assert take_denials(acl_stack) == set()


def test_a_client_lists_the_tasks_of_all_tenants_with_the_rights_of_its_user(acl_stack: Stack) -> None:
    url = url_of(acl_stack.valkey, "roboco-client")
    with Orchestrator(acl_stack.settings.model_copy(update={"redis_url": url})) as client:
        tasks = [client.run(GRAPH.team, GRAPH.prompt, tenant=tenant) for tenant in ("acme", None)]
        listed = {entry.task_id for entry in client.tasks()}
        assert {task.task_id for task in tasks} <= listed
        for task in tasks:
            task.result(60)
        until(lambda: all(entry.status.ended for entry in client.tasks(text=GRAPH.prompt)), 60, "all tasks end")
    assert take_denials(acl_stack) == set()


def test_a_gateway_needs_only_the_rights_of_its_user(acl_stack: Stack) -> None:
    """It admits callers, counts their tasks, streams and usage, and does to tasks what a client may do."""
    acme = Principal("key:one", "acme", frozenset(Scope), limits=CallerLimits(open_tasks=1, open_streams=9))
    settings = acl_stack.settings.model_copy(update={"redis_url": url_of(acl_stack.valkey, "roboco-gateway")})
    client = Orchestrator(settings)
    limited = {"limits": "tokens_per_day=1000000000", "tenant_limits": "open_streams=9,open_tasks=9"}
    app = create_app(client, GatewaySettings.model_validate(limited))
    limits = app.state.gateway.limits

    async def create(task_id: str) -> None:
        async with limits.open_stream(acme):
            await limits.create_task(acme, task_id)

    with TestClient(app) as http:
        key = client.operator.create_key(name="test", tenant="acme").text
        response = http.get("/v1/me", headers={"X-API-Key": key})
        assert (response.status_code, "ratelimit" in response.headers) == (200, True)
        for number in (1, 2):  # the second one is accepted because the first one has ended
            assert http.portal is not None
            http.portal.call(create, f"acme:t{number}")
            task = client.run(GRAPH.team, GRAPH.prompt, task_id=f"acme:t{number}", by="key:one", conversation=True)
            until(lambda: task.result(60).status == "user_turn", 60, "the team waits for its user")  # noqa: B023
            task.send("again")
            task.interrupt()
            assert next(item.type for item in task.stream()) == "event_task_start"
            assert task.task_id in {entry.task_id for entry in client.tasks(tenant="acme")}
            task.stop()
            until(lambda: task.result(60).status.ended, 60, "the task has ended")  # noqa: B023
            until(lambda: client._engine.tasks.task_index.ended([task.task_id]) == [True], 60, "it is listed as ended")  # noqa: B023
        assert client._engine.services.rate_limiter.spent("acme", day_of(client._engine.now()), "key:one").tokens > 0
    assert take_denials(acl_stack) == set()


def test_operations_of_a_gateway_need_only_the_rights_of_its_user(acl_stack: Stack) -> None:
    """An operator reads queues, workers and rates, and reads, requeues and dismisses dead letters."""
    limits = {"redis_url": url_of(acl_stack.valkey, "roboco-gateway"), "model_limits": ("m=10/1000",)}
    client = Orchestrator(acl_stack.settings.model_copy(update=limits))
    task = acl_stack.orchestrator.run(GRAPH.team, GRAPH.prompt, conversation=True)
    until(lambda: task.result(60).status == "user_turn", 60, "the team waits for its user")
    now = acl_stack.orchestrator._engine.now()
    lost = [dead_letter_of_lost_work("advance", task.task_id, "", "lost", 5, now)]
    lost.append(dead_letter_of_lost_work("turn", "gone", "writer, step 1", "lost", 5, now))
    for letter in lost:
        acl_stack.orchestrator._engine.tasks.dead_letters.add(letter)
    with redis.Redis.from_url(acl_stack.valkey.url) as admin:
        admin.lpush(QUEUES[0], "no message of anyone")
    until(lambda: len(acl_stack.orchestrator.operator.dead_letters()) > 2, 60, "the message is a dead letter")
    app = create_app(client, GatewaySettings(flower_url="http://127.0.0.1:5555"))
    with TestClient(app) as http:
        key = client.operator.create_key(name="operator", scopes=("operate",)).text

        def operate(method: str, path: str, status: int = 200) -> Any:
            answer = http.request(method, f"/v1/operations{path}", headers={"X-API-Key": key})
            assert answer.status_code == status, answer.text
            return answer.json()

        assert operate("GET", "")["dead_letters"] >= 3
        assert {queue["name"] for queue in operate("GET", "/queues")["queues"]} == set(QUEUES)
        assert {pool for one in operate("GET", "/workers")["workers"] for pool in one["pools"]} == set(POOLS)
        assert [one["model"] for one in operate("GET", "/rates")["rates"]] == ["m"]
        listed = operate("GET", "/dead-letters?limit=100")["dead_letters"]
        assert {letter.letter_id for letter in lost} < {one["letter_id"] for one in listed}
        for one in listed:
            path = f"/dead-letters/{one['letter_id']}"
            assert operate("GET", path)["reason"] == one["reason"]
            act = "requeue" if one["letter_id"] == lost[0].letter_id else "dismiss"
            operate("POST", f"{path}/{act}")
        assert operate("GET", "/dead-letters") == {"dead_letters": [], "cursor": ""}
    task.stop()
    assert take_denials(acl_stack) == set()


def test_a_gateway_publishes_a_requeued_message_with_the_rights_of_its_user(acl_stack: Stack) -> None:
    """The message is unreadable, so that it returns as another letter."""
    settings = acl_stack.settings.model_copy(update={"redis_url": url_of(acl_stack.valkey, "roboco-gateway")})
    with Orchestrator(settings) as client, acl_stack.orchestrator._producer.producer_pool.acquire() as producer:

        def letter_ids() -> set[str]:
            return {one.letter_id for one in client.operator.dead_letter_page().letters}

        before = letter_ids()
        headers = {"task": "roboco.of_a_later_release", "id": "later"}
        producer.publish([[], {}, {}], routing_key=QUEUES[0], exchange="", headers=headers, declare=[])
        until(lambda: letter_ids() > before, 60, "the message is a dead letter")
        [first] = letter_ids() - before
        client.operator.requeue_dead_letter(first)
        until(lambda: letter_ids() - before not in (set(), {first}), 60, "the message returns")
        for letter_id in letter_ids() - before:
            client.operator.dismiss_dead_letter(letter_id)
        assert letter_ids() == before
    assert take_denials(acl_stack) == set()


ALL_USERS = {
    "coordinator",
    "agents",
    "tools",
    "client",
    "gateway",
    "client-acme",
    "producer",
    "follower",
    "follower-acme",
    "flower",
}
WORKERS = {"coordinator", "agents", "tools"}
CLIENTS = {"client", "client-acme", "gateway"}
ALLOWED: list[tuple[str, set[str]]] = [
    ("FLUSHALL", set()),
    ("CONFIG GET *", set()),
    ("KEYS *", set()),
    ("SCAN 0", set()),
    ("GET roboco.owner", WORKERS | CLIENTS),
    ("SET roboco.owner x NX", {"coordinator"}),
    ("DEL roboco.owner", {"coordinator"}),
    ("LPUSH roboco.coordinator\x06\x169 x", WORKERS | CLIENTS | {"producer"}),
    ("RPOP roboco.tools.3\x06\x169", {"tools"}),
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
    ("LINDEX roboco.coordinator 0", {"coordinator", "gateway"}),
    ("DEL roboco.coordinator", {"coordinator"}),
    ("DEL roboco.tools", {"tools"}),
    ("HGET roboco.unacked x", WORKERS),
    ("DEL roboco.unacked", set()),
    ("HGET roboco:{index}:entries x", {"coordinator", "client", "gateway"}),
    ("ZRANGE roboco:{index}:order 0 -1", {"coordinator", "client", "gateway"}),
    ("ZADD roboco:{index}:order 0 x", {"coordinator", "client", "gateway"}),
    ("HGET roboco:{index}:tenant:acme:entries x", {"coordinator"} | CLIENTS),
    ("ZRANGE roboco:{index}:tenant:globex:order 0 -1", {"coordinator", "client", "gateway"}),
    ("GET roboco:{index}:progress", {"coordinator"} | CLIENTS),
    ("SET roboco:{index}:progress x", {"coordinator"}),
    ("GET roboco:{index}:trimmed", {"coordinator"} | CLIENTS),
    ("SET roboco:{index}:trimmed x", {"coordinator"}),
    ("HGETALL roboco:{globex:1}:state", WORKERS | {"client", "gateway"}),
    ("HGETALL roboco:{acme:1}:state", WORKERS | CLIENTS),
    ("LRANGE roboco:{globex:1}:tail 0 -1", WORKERS | {"client", "gateway"}),
    ("SMEMBERS roboco:{globex:1}:inbox", WORKERS | {"client", "gateway"}),
    ("XRANGE roboco:{globex:1}:events - +", WORKERS | {"client", "gateway", "follower"}),
    ("XRANGE roboco:{acme:1}:events - +", WORKERS | CLIENTS | {"follower", "follower-acme"}),
    ("XADD roboco:{acme:1}:events * m x", WORKERS | CLIENTS),
    ("PUBLISH roboco:{acme:1}:events x", WORKERS | CLIENTS),
    ("PUBLISH /0.celery.pidbox x", WORKERS | {"flower"}),
    ("PUBLISH /0.celeryev/x x", WORKERS | CLIENTS | {"flower"}),
    ("PUBLISH roboco:signals x", WORKERS | CLIENTS),
    ("ZRANGE roboco:{schedule/3-41}:tasks 0 -1", {"coordinator", "gateway"}),
    ("ZADD roboco:{schedule/3-41}:tasks 0 x", WORKERS | CLIENTS),
    ("ZREM roboco:{schedule/3-41}:tasks x", {"coordinator"}),
    ("ZREM roboco:{schedule/3-41}:jobs x", {"coordinator"}),
    ("DEL roboco:{schedule/3-41}:tasks", {"coordinator"}),
    ("SET roboco:{schedule/3-41}:tasks x", {"coordinator"}),
    ("EXPIRE roboco:{schedule/3-41}:tasks 0", {"coordinator"}),
    ("SET roboco:sentinel x", {"coordinator"}),
    ("HSET roboco:schedule_fill token x", {"coordinator"}),
    ("HGET roboco:switches switches", WORKERS | {"gateway"}),
    ("HSET roboco:switches revision 9", {"coordinator", "gateway"}),
    ("DEL roboco:switches", set()),
    ("HGETALL roboco:{dead}:letters", {"coordinator", "client"}),
    ("GET roboco:{workers}:workspace", WORKERS | CLIENTS),
    ("SET roboco:{workers}:workspace x", {"coordinator"}),
    ("ZADD roboco:{workers}:coordinator 0 x", {"coordinator"}),
    ("ZADD roboco:{workers}:tools 0 x", {"tools"}),
    ("HSET roboco:{workers}:modules:agents x []", {"agents"}),
    ("ZRANGE roboco:{workers}:agents 0 -1", {"agents"} | CLIENTS),
    ("HSET roboco:{dead}:letters x x", WORKERS | {"client"}),
    ("HDEL roboco:{dead}:letters x", WORKERS | {"client", "gateway"}),
    ("HGET roboco:{dead}:letters x", {"coordinator", "client", "gateway"}),
    ("ZREM roboco:{dead}:order x", WORKERS | {"client", "gateway"}),
    ("DEL roboco:{dead}:letters", {"coordinator", "client"}),
    ("GET roboco:{rate:m}:paused_until:KEY", {"coordinator", "agents", "gateway"}),
    ("SET roboco:{rate:m}:paused_until:KEY x", {"coordinator", "agents"}),
    ("HGETALL roboco:{rate:m}:all:used", {"coordinator", "agents", "gateway"}),
    ("HSET roboco:{rate:m}:all:used 1r 0", {"coordinator", "agents"}),
    ("ZCARD roboco:{rate:m}:all:queue", {"coordinator", "agents", "gateway"}),
    ("HMGET roboco:{workers}:modules:tools x", {"tools", "client", "gateway"}),
    ("DEL roboco:{t}:attempts:pass", WORKERS | {"gateway"}),
    ("GET roboco:{gate:acme}:requests:x", {"gateway"}),
    ("SET roboco:{gate:acme}:requests:x 1", {"gateway"}),
    ("ZADD roboco:{gate:}:tasks 0 x", {"gateway"}),
    ("HGETALL roboco:{gate:acme}:usage:2026-11-23", {"gateway"}),
    ("HINCRBY roboco:{gate:acme}:usage:2026-11-23 tokens 1", {"coordinator", "agents"}),
    ("HINCRBY roboco:{gate:acme}:streams x 1", set()),
]
"""Each command, and the users that may run it."""


def test_only_the_listed_users_may_run_a_command(acl_stack: Stack) -> None:
    with redis.Redis.from_url(acl_stack.valkey.url, decode_responses=True) as client:

        def may_run(user: str, command: str) -> bool:
            return bool(client.execute_command("ACL", "DRYRUN", f"roboco-{user}", *command.split()) == "OK")

        found = [(command, {user for user in ALL_USERS if may_run(user, command)}) for command, _ in ALLOWED]
    assert found == ALLOWED


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


def test_a_journey_over_tls_ends_with_the_expected_history(tls_stack: Stack) -> None:
    """All pools take part in it."""
    task = tls_stack.orchestrator.run(PARALLEL.team, PARALLEL.prompt)
    assert PARALLEL.run_to_end(task) == PARALLEL.final_status
    assert shape(task.history()) == PARALLEL.expected


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


def test_an_s3_certificate_of_an_unknown_authority_is_refused(tls_stack: Stack, certificates: Certificates) -> None:
    with environment(AWS_CA_BUNDLE=str(certificates.stranger)):
        files = open_workspace(tls_stack.settings.workspace, tls_stack.settings.s3_endpoint_url, 2.0).files
        with pytest.raises(TransientError, match="certificate verify failed"):
            files.get("anything")
