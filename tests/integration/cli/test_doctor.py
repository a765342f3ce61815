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
from roboco.cli.doctor.redis import check_redis
from roboco.cli.doctor.webhooks import check_webhooks
from roboco.cli.doctor.workspace import check_workspace
from roboco.client.wiring import producer_app
from roboco.domain.paths import WORKSPACE_FILE
from roboco.local.process import free_port
from roboco.local.seaweed import S3Server
from roboco.local.valkey import ValkeyServer, find_server, start_valkey
from roboco.redis.keys import Keys
from tests.conftest import need, running
from tests.integration.cli.process import CommandProcess
from tests.support.servers.certificates import Certificates
from tests.support.servers.hook_server import HookServer
from tests.support.servers.loose_s3 import loose_s3
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


def test_a_redis_with_a_wrong_clock_fails(settings: Settings, server: ValkeyServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(redis.Redis, "time", lambda self: (1_000_000, 0))
    check = by_name(check_redis(settings, True))["redis clock"]
    assert check.state == "fail"
    assert "behind this machine" in check.found


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


def test_a_wrong_workspace_is_no_failure_of_redis(settings: Settings) -> None:
    wrong = settings.model_copy(update={"workspace": "/no/address"})
    check = by_name(check_broker(wrong))["workers"]
    assert check.state == "fail"
    assert "use file:///folder or s3://bucket/prefix" in check.found


def test_a_list_that_no_worker_reads_is_named(settings: Settings, admin: redis.Redis) -> None:
    with Celery(broker=settings.broker) as shop:
        shop.conf.broker_transport_options = {"global_keyprefix": "shop:"}
        shop.send_task("roboco.submit", queue=COORDINATOR_QUEUE, declare=[])
    check = by_name(check_broker(settings))["unread messages"]
    assert check.state == "fail"
    assert check.found == "no worker reads the lists 'shop:roboco.coordinator'"
    assert check.todo.startswith("remove global_keyprefix, sep and priority_steps from ")
    admin.delete("shop:roboco.coordinator")


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
                *("workspace", "s3 metadata", "s3 links", "s3 clock", "s3 lifecycle"),
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
        [wrong] = check_workspace(ours)
        assert (wrong.name, wrong.state) == ("workspace", "fail")
        assert wrong.todo.startswith("correct AWS_SECRET_ACCESS_KEY: it does not fit")
        assert "correct" not in wrong.found


@pytest.mark.parametrize(
    ("lacks", "name", "state", "found_text", "todo"),
    [
        ({}, "s3 links", "ok", "links work: ", ""),
        ({"metadata": False}, "s3 metadata", "warn", "user metadata is dropped: ", "nothing is lost"),
        ({"links": "SignatureDoesNotMatch"}, "s3 links", "warn", "a link is refused: 403", "AWS_DEFAULT_REGION"),
        ({"conditions": "ignored"}, "workspace", "fail", "does not honour If-None-Match", "use a store that honours"),
        ({"conditions": "501"}, "workspace", "fail", "refuses writes with If-None-Match (501", "use a store"),
        ({"unavailable": True}, "workspace", "fail", "the S3 store refuses", "see its log"),
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
        assert {"s3 metadata", "s3 links", "s3 clock", "s3 lifecycle"} <= set(checks)


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
