"""`roboco doctor` with servers that lack a feature: a test for each finding."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import redis
from celery import Celery

from roboco import Settings
from roboco.allowlist import Allowlist
from roboco.broker.broker_owner import OWNER
from roboco.broker.names import AGENTS_QUEUE, COORDINATOR_QUEUE, queue_lanes
from roboco.cli.doctor.broker import check_broker
from roboco.cli.doctor.check import CheckResult
from roboco.cli.doctor.machine import check_flower
from roboco.cli.doctor.models import check_models
from roboco.cli.doctor.redis import check_redis
from roboco.cli.doctor.webhooks import check_webhooks
from roboco.cli.doctor.workspace import check_workspace
from roboco.client.wiring import producer_app
from roboco.domain.paths import WORKSPACE_FILE
from roboco.domain.shard import shard_of
from roboco.local.process import free_port
from roboco.local.seaweed import S3Server
from roboco.local.valkey import ValkeyServer, find_server, start_valkey
from roboco.redis.cluster import node_urls
from roboco.redis.keys import Keys
from tests.conftest import need, running
from tests.integration.cli.process import CommandProcess
from tests.support.flower import flower
from tests.support.servers.certificates import Certificates
from tests.support.servers.cluster import Cluster
from tests.support.servers.hook_server import HookServer
from tests.support.servers.loose_s3 import loose_s3
from tests.support.servers.model_server import ModelServer
from tests.support.servers.rabbitmq import find_rabbitmq, start_rabbitmq
from tests.support.stack import Stack, s3_environment

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Yield a Redis for this module alone, since its tests change the configuration."""
    need(find_server)
    yield from running(start_valkey(tmp_path_factory.mktemp("valkey")))


@pytest.fixture
def admin(server: ValkeyServer) -> Iterator[redis.Redis]:
    """Yield a client of the administrator, and restore the configuration after the test."""
    names = ("maxmemory", "maxmemory-policy", "appendonly")
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        before: dict[str, Any] = client.config_get(*names)
        yield client
        for name, value in before.items():
            client.config_set(name, value)


@pytest.fixture
def settings(server: ValkeyServer, tmp_path: Path) -> Settings:
    return Settings(redis_url=server.url, workspace=tmp_path.as_uri(), prefix=f"d{tmp_path.name[:30]}")


def by_name(checks: Iterator[CheckResult]) -> dict[str, CheckResult]:
    """Return the checks by their names."""
    return {check.name: check for check in checks}


def states(checks: Iterator[CheckResult]) -> dict[str, str]:
    """Return the state of each check. Raise AssertionError if a check that is not ok names no remedy."""
    made = by_name(checks)
    assert all(check.todo for check in made.values() if check.state != "ok")
    return {name: check.state for name, check in made.items()}


def test_a_correct_redis_passes_every_check(settings: Settings, admin: redis.Redis) -> None:
    ours = states(check_redis(settings, True))
    assert ours.pop("redis latency") in ("ok", "warn")  # a machine under load is slow
    assert ours == dict.fromkeys(
        (
            *("redis", "redis rights", "redis clock", "redis memory", "redis disk", "redis replay", "redis keys"),
            "redis channels",
            "dead letters",
        ),
        "ok",
    )
    assert not admin.keys(f"{settings.prefix}:*")


def test_a_redis_that_evicts_and_does_not_persist_is_a_warning(settings: Settings, admin: redis.Redis) -> None:
    admin.config_set("maxmemory-policy", "allkeys-lru")
    admin.config_set("appendonly", "no")
    admin.config_set("maxmemory", str(int(admin.info("memory")["used_memory"] * 1.05)))
    seen = states(check_redis(settings, True))
    assert {name: seen[name] for name in ("redis memory", "redis room", "redis disk")} == {
        "redis memory": "warn",
        "redis room": "warn",
        "redis disk": "warn",
    }


def test_a_redis_with_a_wrong_clock_fails(settings: Settings, server: ValkeyServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(redis.Redis, "time", lambda self: (1_000_000, 0))
    check = by_name(check_redis(settings, True))["redis clock"]
    assert check.state == "fail"
    assert "behind this machine" in check.found


def test_a_slow_redis_is_a_warning_and_an_old_one_or_a_replica_fails(
    settings: Settings, admin: redis.Redis, monkeypatch: Any
) -> None:
    facts: dict[str, Any] = admin.info()
    slow = iter(float(second) for second in range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: next(slow))
    assert states(check_redis(settings, True))["redis latency"] == "warn"
    monkeypatch.undo()
    for changes in ({"redis_version": "6.2.1"}, {"role": "slave"}):
        monkeypatch.setattr(redis.Redis, "info", lambda self, *_, changes=changes: facts | changes)
        assert states(check_redis(settings, True))["redis"] == "fail"


def test_missing_rights_of_a_redis_user_are_named(settings: Settings, admin: redis.Redis) -> None:
    admin.acl_setuser(
        "weak", enabled=True, passwords=["+pw"], keys=[f"{settings.prefix}:*"], commands=["+@all", "-publish", "-xadd"]
    )
    url = settings.redis_url.replace("redis://", "redis://weak:pw@")
    seen = by_name(check_redis(settings.model_copy(update={"redis_url": url}), True))
    assert seen["redis rights"].found == "refused: XADD and XRANGE, PUBLISH, SUBSCRIBE"
    assert seen["redis"].state == "fail"
    assert not any("pw@" in check.found for check in seen.values())


def test_a_default_user_without_rights_fails_since_redis_replays_its_file_with_them(
    settings: Settings, admin: redis.Redis
) -> None:
    admin.acl_setuser("able", enabled=True, passwords=["+pw"], keys=["*"], channels=["*"], commands=["+@all"])
    url = settings.redis_url.replace("redis://", "redis://able:pw@")
    with redis.Redis.from_url(url) as able:
        try:
            able.execute_command("ACL", "SETUSER", "default", "off", "-@all")
            ours = settings.model_copy(update={"redis_url": url})
            assert by_name(check_redis(ours, True))["redis replay"].state == "fail"
        finally:
            able.execute_command("ACL", "SETUSER", "default", "on", "+@all")


def test_a_prefix_with_keys_of_another_application_fails(settings: Settings, admin: redis.Redis) -> None:
    schedule = Keys(settings.prefix).schedule(shard_of("task_1"))
    admin.zadd(schedule, {"task_1": 1})
    admin.hset(f"{settings.prefix}:{{task_1}}:state", "status", "of another version")
    assert states(check_redis(settings, True))["redis keys"] == "fail"
    admin.delete(schedule)
    admin.set(schedule, "of another application")
    assert "expected a zset" in by_name(check_redis(settings, True))["redis keys"].found


def test_an_unreachable_redis_fails(settings: Settings) -> None:
    away = settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{free_port()}/0"})
    assert states(check_redis(away, True)) == {"redis": "fail"}
    assert states(check_redis(away, False)) == {"redis": "warn"}
    assert states(check_broker(away)) == {"broker": "fail"}


def test_a_shared_broker_without_workers_is_reported(settings: Settings, admin: redis.Redis) -> None:
    admin.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    with producer_app(settings) as app:
        app.send_task("roboco.turn", kwargs={}, headers={"roboco_sent_at": 1_000_000})
    seen = by_name(check_broker(settings))
    assert {name: check.state for name, check in seen.items()} == {
        "broker": "ok",
        "broker database": "warn",
        "broker deployment": "ok",
        "unread messages": "ok",
        "queue roboco.coordinator": "fail",
        "queue roboco.agents": "fail",
        "backlog agents": "warn",
        "queue roboco.tools": "fail",
    }
    assert "also used for celery" in seen["broker database"].found
    assert seen["backlog agents"].found.startswith("1 messages wait, the oldest for")
    admin.delete("_kombu.binding.celery", AGENTS_QUEUE)


def test_a_broker_or_channels_of_another_deployment_fail(settings: Settings, admin: redis.Redis) -> None:
    admin.set(OWNER, "theirs abc")
    check = by_name(check_broker(settings))["broker deployment"]
    assert check.state == "fail"
    assert "ROBOCO_PREFIX='theirs', workspace abc" in check.todo
    own = json.loads(Path(settings.workspace.removeprefix("file://"), WORKSPACE_FILE).read_bytes())["id"]
    admin.set(OWNER, f"{settings.prefix} {own}")
    assert states(check_broker(settings))["broker deployment"] == "ok"
    admin.delete(OWNER)

    with redis.Redis.from_url(settings.redis_url.rpartition("/")[0] + "/7") as other:
        other.set(Keys(settings.prefix).workspace, "id file:///there")
        check = by_name(check_redis(settings, True))["redis channels"]
        assert (check.state, check.found) == ("fail", "shared with database 7")
        assert "ROBOCO_PREFIX of one of them" in check.todo
        other.delete(Keys(settings.prefix).workspace)


def test_a_list_that_no_worker_reads_is_named_with_the_setting_of_its_producer(
    settings: Settings, admin: redis.Redis
) -> None:
    with Celery(broker=settings.broker) as shop:
        shop.conf.broker_transport_options = {"global_keyprefix": "shop:"}
        shop.send_task("roboco.submit", queue=COORDINATOR_QUEUE, declare=[])
    check = by_name(check_broker(settings))["unread messages"]
    assert check.state == "fail"
    assert check.found == "1 messages wait in the list 'shop:roboco.coordinator' of the broker, which no worker reads"
    assert check.todo == (
        "remove global_keyprefix='shop:' from broker_transport_options of the producer; move them: repeat "
        'LMOVE "shop:roboco.coordinator" roboco.coordinator RIGHT LEFT in redis-cli until it answers nil'
    )
    admin.delete("shop:roboco.coordinator")


@pytest.mark.parametrize("queue", [COORDINATOR_QUEUE, "roboco.agents.3"])
def test_a_queue_that_a_producer_declared_is_accepted(settings: Settings, admin: redis.Redis, queue: str) -> None:
    """Celery declares a queue to which it sends, and kombu stores the declaration as a binding."""
    with Celery(broker=settings.broker) as app:
        app.send_task("roboco.submit", queue=queue)
    declared = f"_kombu.binding.{queue}"
    assert admin.exists(declared)
    assert by_name(check_broker(settings))["broker database"].state == "ok"
    admin.delete(declared, queue)


def test_a_folder_must_be_writable_and_have_space(settings: Settings, tmp_path: Path, monkeypatch: Any) -> None:
    assert states(check_workspace(settings)) == {"workspace": "ok", "workspace disk": "ok"}
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1})())
    assert states(check_workspace(settings))["workspace disk"] == "fail"
    file = tmp_path / "file"
    file.touch()
    nowhere = settings.model_copy(update={"workspace": f"file://{file}/below"})
    assert states(check_workspace(nowhere)) == {"workspace": "fail"}


@pytest.mark.s3
def test_a_bucket_must_keep_objects_and_accept_the_keys(settings: Settings, s3: S3Server, monkeypatch: Any) -> None:
    there = {"workspace": f"s3://{s3.bucket}/doctor", "s3_endpoint_url": s3.endpoint_url}
    ours = settings.model_copy(update=there)
    with s3_environment(s3):
        assert states(check_workspace(ours)) == dict.fromkeys(
            (
                *("workspace", "s3 metadata", "s3 links", "s3 clock", "s3 lifecycle", "s3 versions"),
                "s3 misplaced records",
            ),
            "ok",
        )
        client = boto3.client("s3", endpoint_url=s3.endpoint_url, region_name="us-east-1")
        rule: Any = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "doctor/"}, "Expiration": {"Days": 1}}
        client.put_bucket_lifecycle_configuration(Bucket=s3.bucket, LifecycleConfiguration={"Rules": [rule]})
        try:
            assert states(check_workspace(ours))["s3 lifecycle"] == "fail"
            beside = ours.model_copy(update={"workspace": f"s3://{s3.bucket}/beside"})
            assert states(check_workspace(beside))["s3 lifecycle"] == "ok"
        finally:
            client.delete_bucket_lifecycle(Bucket=s3.bucket)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        assert states(check_workspace(ours)) == {"workspace": "fail"}


@pytest.mark.parametrize(
    ("lacks", "name", "state", "found_text", "todo"),
    [
        ({}, "s3 links", "ok", "links work: ", ""),
        ({"metadata": False}, "s3 metadata", "warn", "user metadata is dropped: ", "nothing is lost"),
        ({"links": "SignatureDoesNotMatch"}, "s3 links", "warn", "403 SignatureDoesNotMatch", "AWS_DEFAULT_REGION"),
        ({"links": "AccessDenied"}, "s3 links", "warn", "403 AccessDenied", "s3:GetObject"),
        ({"links": "RequestTimeTooSkewed"}, "s3 links", "warn", "403 RequestTimeTooSkewed", "NTP"),
        ({"conditions": "ignored"}, "workspace", "fail", "does not honour If-None-Match", "use a store that honours"),
        ({"conditions": "501"}, "workspace", "fail", "refuses writes with If-None-Match (501", "use a store"),
        ({"unavailable": True}, "workspace", "fail", "the S3 store refuses", "ROBOCO_WORKSPACE"),
    ],
)
def test_a_bucket_that_lacks_a_feature_is_reported_with_the_remedy(
    settings: Settings, monkeypatch: Any, lacks: dict[str, Any], name: str, state: str, found_text: str, todo: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "roboco-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    with loose_s3(**lacks) as store:
        there = {"workspace": f"s3://{store.bucket}/shop", "s3_endpoint_url": store.endpoint_url}
        checks = {check.name: check for check in check_workspace(settings.model_copy(update=there))}
        assert set(store.objects) <= {"shop/_checks/conditions"}, "the check removes its objects"
    assert (checks[name].state, found_text in checks[name].found, todo in checks[name].todo) == (state, True, True)
    assert not any(secret in str(checks) for secret in ("roboco-key", "canary", "X-Amz"))
    if "unavailable" not in lacks:
        assert {"s3 metadata", "s3 links", "s3 clock", "s3 lifecycle", "s3 versions"} <= set(checks)


@pytest.mark.s3
def test_a_versioned_bucket_that_keeps_all_versions_is_a_warning(settings: Settings, s3: S3Server) -> None:
    with s3_environment(s3):
        client = boto3.client("s3", endpoint_url=s3.endpoint_url, region_name="us-east-1")
        client.create_bucket(Bucket="versioned")
        ours = settings.model_copy(update={"workspace": "s3://versioned/doctor", "s3_endpoint_url": s3.endpoint_url})
        assert "is gone" in by_name(check_workspace(ours))["s3 versions"].found
        client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        seen = by_name(check_workspace(ours))
        assert {check.state for name, check in seen.items() if name != "s3 versions"} == {"ok"}, "all other checks pass"
        assert seen["s3 versions"].state == "warn"
        assert "NoncurrentVersionExpiration" in seen["s3 versions"].todo
        rule: Any = {
            "ID": "versions",
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
        }
        client.put_bucket_lifecycle_configuration(Bucket="versioned", LifecycleConfiguration={"Rules": [rule]})
        seen = by_name(check_workspace(ours))
        assert seen["s3 versions"] == CheckResult("s3 versions", "ok", "old versions are kept for 30 days")
        assert seen["s3 lifecycle"].state == "ok"


def test_webhooks_need_a_known_certificate_and_a_valid_secret(tmp_path: Path, monkeypatch: Any) -> None:
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    with HookServer(tls=certificates.server("127.0.0.1")) as secured, HookServer() as plain:
        gone = f"https://127.0.0.1:{free_port()}/"
        allowed = (f"{secured.url}hooks", plain.url, gone, "https://169.254.169.254/", "10.0.0.0/8", "ftp://shop/")
        variables = ("GOOD_SECRET", "BAD_SECRET", "NO_SECRET")
        settings = Settings(allowlist=Allowlist(webhooks=allowed, webhook_env=variables))
        environment = {"GOOD_SECRET": "whsec_Y2FuYXJ5", "BAD_SECRET": "whsec_canary!"}
        expected = {
            f"webhook {secured.url}hooks": "ok",
            f"webhook {plain.url}": "warn",
            f"webhook {gone}": "warn",
            "webhook https://169.254.169.254/": "fail",
            "webhook ftp://shop/": "fail",
            "webhook secret GOOD_SECRET": "ok",
            "webhook secret BAD_SECRET": "fail",
            "webhook secret NO_SECRET": "fail",
        }
        assert states(check_webhooks(settings, environment)) == expected
        assert "canary" not in str(by_name(check_webhooks(settings, environment)))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.stranger))
        distrusted = by_name(check_webhooks(settings, environment))[f"webhook {secured.url}hooks"]
        assert (distrusted.state, "SSL_CERT_FILE" in distrusted.todo) == ("fail", True)
        assert not secured.posted + plain.posted, "the check sends no notification"
    assert states(check_webhooks(Settings(), {})) == {}
    without_address = Settings(allowlist=Allowlist(webhook_env=("GOOD_SECRET",)))
    assert states(check_webhooks(without_address, environment))["webhooks"] == "fail"


def test_a_cluster_node_that_evicts_is_named(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        settings = Settings(redis_url=cluster.url, broker_url="redis://127.0.0.1:1/0")
        ours = states(check_redis(settings, True))
        assert {ours.pop("redis latency"), *ours.values()} <= {"ok", "warn"}
        assert {name for name, state in ours.items() if state != "ok"} == set()
        assert {"redis", "redis rights", "redis memory", "redis disk", "redis keys"} <= set(ours)
        with redis.Redis.from_url(node_urls(cluster.url)[1], decode_responses=True) as node:
            node.config_set("maxmemory-policy", "allkeys-lru")
            node.config_set("appendonly", "no")
        seen = by_name(check_redis(settings, True))
        assert {name: seen[name].state for name in ("redis memory", "redis disk")} == {
            "redis memory": "warn",
            "redis disk": "warn",
        }
        assert f":{cluster.ports[1]})" in seen["redis memory"].found
    assert states(check_redis(settings, True)) == {"redis": "fail"}


def test_rabbitmq_without_workers_or_credentials_is_reported(settings: Settings, tmp_path: Path) -> None:
    need(find_rabbitmq)
    rabbit = start_rabbitmq(tmp_path / "rabbitmq")
    try:
        settings = settings.model_copy(update={"broker_url": rabbit.url})
        with producer_app(settings) as app:
            sends: Any = app
            for lane in queue_lanes(AGENTS_QUEUE)[:2]:
                sends.send_task("roboco.turn", kwargs={}, queue=lane)
        seen = by_name(check_broker(settings))
        version = seen.pop("broker version")
        assert (version.state == "warn") == ("consumer_timeout" in version.todo)
        assert {name: check.state for name, check in seen.items()} == {
            "broker": "ok",
            "broker deployment": "ok",
            "queue roboco.coordinator": "fail",
            "queue roboco.agents": "fail",
            "backlog agents": "ok",
            "queue roboco.tools": "fail",
        }
        assert seen["backlog agents"].found == "2 messages wait"
        rabbit.set("disk_free_limit.absolute = 1000000000000000")
        alarmed = by_name(check_broker(settings))
        assert alarmed["broker"].state == "fail"
        assert "has an alarm, low on disk" in alarmed["broker"].found
        assert "rabbitmq-diagnostics alarms" in alarmed["broker"].todo
        wrong = Settings(broker_url=rabbit.url.replace("secret", "canary"))
        refused = by_name(check_broker(wrong))
        assert {name: check.state for name, check in refused.items()} == {"broker": "fail"}
        assert "canary" not in str(refused)
    finally:
        rabbit.stop()
    assert states(check_broker(settings)) == {"broker": "fail"}


def test_models_need_a_reachable_server_and_a_key_for_openai(monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert states(check_models([])) == {"model gpt-4o-mini": "fail"}
    with ModelServer(models=("gpt-4o-mini",)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert states(check_models([])) == {"model gpt-4o-mini": "ok"}
    assert states(check_models([])) == {"model gpt-4o-mini": "fail"}


@pytest.mark.workers
def test_flower_without_a_password_fails(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=()) as stack:
        with flower(stack) as seen:
            assert check_flower(seen.address) == CheckResult("flower", "ok", f"{seen.address} asks for a password")
            address = seen.address
        with flower(stack, password=False) as open_to_all:
            check = check_flower(open_to_all.address)
            assert (check.state, "FLOWER_BASIC_AUTH" in check.todo) == ("fail", True)
    assert check_flower(address).state == "fail"


@pytest.mark.workers
def test_a_running_deployment_passes(folder_stack: Stack) -> None:
    with CommandProcess(["doctor", "--json", "--models"], folder_stack.folder, folder_stack.environment) as process:
        process.wait_for_exit()
        report = json.loads(process.output)
    assert report["ok"], [check for check in report["checks"] if check["state"] == "fail"]
    made = {check["name"]: check for check in report["checks"]}
    for name in ("sqlite", "redis rights", "redis keys", "broker database", "queue roboco.tools", "workspace disk"):
        assert made[name]["state"] == "ok", made[name]
    assert made["tools tests.support.tools_for_agents"]["state"] == "ok"
    assert made["model gpt-4o-mini"]["state"] == "warn"
    assert made["model gpt-4o-mini"]["todo"] == "name one of scripted"
