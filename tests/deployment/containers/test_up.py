"""`compose.yaml` from nothing, by the commands of deploy/README.md: what answers, and what `down` and `up` continue."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.deployment.containers.deployment import POOLS, SCALE, SERVICES, Deployment, variables
from tests.deployment.containers.outside import call, fetch
from tests.deployment.containers.room import Room
from tests.support.stack import until

pytestmark = [pytest.mark.slow, pytest.mark.workers]
REQUIRED = ("REDIS_PASSWORD_AGENTS", "S3_SECRET_KEY_TOOLS", "FLOWER_BASIC_AUTH", "PYTHON_IMAGE", "SEAWEEDFS_IMAGE")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_variable_is_named_and_nothing_starts(room: Room, images: dict[str, str], name: str) -> None:
    values = variables(images)
    del values[name]
    refused = Deployment(room, values, ("compose.yaml",)).compose("up", "--detach", check=False)
    assert name in refused
    assert "set it" in refused or "see deploy/README.md" in refused
    assert room.run("docker", "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=roboco") == ""


def test_every_service_is_healthy_and_doctor_finds_no_failure(deployment: Deployment) -> None:
    deployment.wait_healthy(SERVICES)
    admin = f"redis://roboco-admin:{deployment.values['REDIS_PASSWORD_ADMIN']}@redis:6379/0"
    report = deployment.run_in("coordinator", "roboco", "doctor", changes={"ROBOCO_REDIS_URL": admin})
    assert "FAIL" not in report
    assert "ok   queue roboco.tools" in report


def test_each_container_has_limits_and_few_rights(deployment: Deployment) -> None:
    for service in SERVICES:
        host = deployment.inspect(deployment.first(service))["HostConfig"]
        assert host["Memory"] > 0, service
        assert host["PidsLimit"] > 0, service
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service


def test_a_caller_outside_submits_and_follows(deployment: Deployment) -> None:
    """It reaches the published port alone."""
    with call(deployment) as caller:
        assert caller.finish()["status"] == "completed"


def test_a_restart_of_redis_with_its_users_loses_nothing(deployment: Deployment) -> None:
    """Each user has written by then; a dead letter and the usage of a day are written only by transactions."""
    assert deployment.start_load(2).finish()["findings"] == []
    redis_cli(deployment, "LPUSH", "roboco.agents", "no message of anyone")
    until(lambda: redis_cli(deployment, "HLEN", "roboco:{dead}:letters") == "1", 60, "the dead letter is stored")
    services = ("coordinator", "agents", "tools", "gateway", "flower")
    deployment.compose("stop", "--timeout", "20", *services)
    before = lasting_keys(deployment)
    assert any(":usage:" in key for key in before)
    deployment.compose("restart", "redis")
    deployment.wait_healthy(["redis"])
    assert lasting_keys(deployment) == before
    deployment.up("--no-recreate", *SCALE)
    assert deployment.start_load(2).finish()["findings"] == []


def lasting_keys(deployment: Deployment) -> dict[str, str]:
    """Return each key of Redis that does not expire within minutes, with the digest of its value."""
    script = """
        local found = {}
        for _, key in ipairs(redis.call('KEYS', '*')) do
            local left = redis.call('PTTL', key)
            if left == -1 or left > 600000 then
                table.insert(found, key .. ' ' .. redis.sha1hex(redis.call('DUMP', key)))
            end
        end
        return found"""
    return dict(line.rsplit(" ", 1) for line in redis_cli(deployment, "EVAL", script, "0").splitlines())


def redis_cli(deployment: Deployment, *command: str) -> str:
    """Run a command of Redis as the operator."""
    password = deployment.values["REDIS_PASSWORD_ADMIN"]
    words = ("redis-cli", "--user", "roboco-admin", *command)
    return deployment.run_in("redis", *words, changes={"REDISCLI_AUTH": password}).strip()


def test_flower_answers_its_user_alone(deployment: Deployment) -> None:
    assert fetch(deployment, 5555, "/healthcheck")[0] == 200
    assert fetch(deployment, 5555, "/api/workers")[0] == 401
    user = base64.b64encode(deployment.values["FLOWER_BASIC_AUTH"].encode()).decode()
    until(lambda: len(flower_workers(deployment, user)) >= 2 * len(POOLS), 60, "Flower knows all workers")


def flower_workers(deployment: Deployment, user: str) -> Any:
    """Return the names of the workers that Flower knows."""
    status, text = fetch(deployment, 5555, "/workers?json=1", f"Basic {user}")
    assert status == 200, text
    return [worker["hostname"] for worker in json.loads(text)["data"]]


def test_prometheus_scrapes_every_container(deployment: Deployment) -> None:
    """Each target of prometheus.yml is up, its rules are loaded, and the tasks before are counted."""
    deployment.up("--no-deps", "prometheus")
    until(lambda: down_targets(deployment) == [], 90, lambda: str(down_targets(deployment)))
    assert fetch(deployment, 9090, "/api/v1/rules")[1].count('"type":"alerting"') > 5
    query = quote('roboco_tasks_total{pool="coordinator", status="completed"} > 0')
    until(lambda: '"result":[{' in fetch(deployment, 9090, f"/api/v1/query?query={query}")[1], 60, "a task is counted")


def down_targets(deployment: Deployment) -> list[str]:
    """Return the targets that Prometheus does not reach, or "too few" if it has not found all."""
    targets = json.loads(fetch(deployment, 9090, "/api/v1/targets")[1])["data"]["activeTargets"]
    found = [f"{one['scrapeUrl']}: {one['lastError'] or one['health']}" for one in targets if one["health"] != "up"]
    return found if len(targets) == 2 * len(POOLS) + 2 else [f"{len(targets)} targets", *found]


def test_more_workers_of_a_pool_take_part(deployment: Deployment) -> None:
    """`--scale agents=3` starts a third container, and a drained first one leaves the work to the others."""
    deployment.up("--no-recreate", "--scale", "coordinator=2", "--scale", "agents=3", "--scale", "tools=2")
    assert len(deployment.containers("agents")) == 3
    deployment.wait_healthy(["agents"])
    assert deployment.start_load().finish()["findings"] == []


def test_open_tasks_continue_after_down_and_up(deployment: Deployment) -> None:
    """`down` without `--volumes` removes every container during a load, that of the followers included."""
    load = deployment.start_load(3)
    deployment.compose("--profile", "monitoring", "down", "--timeout", "5")
    load.finish(30)
    deployment.up(*SCALE)
    continued = deployment.start_load(continued=load.task_ids)
    assert len(load.task_ids) == 3
    assert continued.finish()["findings"] == []
