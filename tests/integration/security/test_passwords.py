"""A Redis that requires a password: clients, `roboco doctor` and workers name the setting and its syntax."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from roboco import Settings
from roboco.broker.broker_error import translating_errors
from roboco.client.wiring import producer_app
from roboco.errors import TransientError
from roboco.local.valkey import ValkeyServer, find_server, start_valkey
from tests.conftest import need, running
from tests.support import forked

pytestmark = [pytest.mark.redis, pytest.mark.slow]

SYNTAX = "write redis://:PASSWORD@HOST:PORT/DATABASE, or redis://USER:PASSWORD@HOST:PORT/DATABASE"
MISSING, WRONG = "Redis asks for a password, and ROBOCO_REDIS_URL has none; write", "Redis refuses the user or password"


@pytest.fixture(scope="module")
def password_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Yield a Redis with a password."""
    need(find_server)
    for server in running(start_valkey(tmp_path_factory.mktemp("locked"))):
        with redis.Redis.from_url(server.url) as admin:
            admin.config_set("requirepass", "right")
        yield server


def url_of(server: ValkeyServer, password: str) -> str:
    return server.url.replace("//", f"//:{password}@") if password else server.url


@pytest.fixture
def settings(tmp_path: Path, password_redis: ValkeyServer, request: pytest.FixtureRequest) -> Settings:
    return Settings(redis_url=url_of(password_redis, request.param), workspace=tmp_path.as_uri())


@pytest.mark.parametrize(("settings", "reason"), [("", MISSING), ("wrong", WRONG)], indirect=["settings"])
def test_broker_without_the_right_password_names_the_settings(settings: Settings, reason: str) -> None:
    with producer_app(settings) as app, pytest.raises(TransientError) as refused, translating_errors("roboco.turn"):
        app.send_task("roboco.turn", retry=False)
    assert "ROBOCO_BROKER_URL (or ROBOCO_REDIS_URL, if that is not set)" in str(refused.value)
    assert SYNTAX in str(refused.value)


@pytest.mark.parametrize(
    ("pool", "redis_password", "broker_password", "reason"),
    [
        ("app", "", None, MISSING),
        ("coordinator", "wrong", None, WRONG),
        ("agents", "right", "", "Redis asks for a password, and ROBOCO_BROKER_URL has none; write"),
    ],
)
def test_worker_without_the_right_password_ends_and_names_the_setting(
    password_redis: ValkeyServer,
    tmp_path: Path,
    pool: str,
    redis_password: str,
    broker_password: str | None,
    reason: str,
) -> None:
    environment = os.environ | {
        "ROBOCO_REDIS_URL": url_of(password_redis, redis_password),
        "ROBOCO_WORKSPACE": tmp_path.as_uri(),
    }
    environment |= {} if broker_password is None else {"ROBOCO_BROKER_URL": url_of(password_redis, broker_password)}
    worker = ("-A", f"roboco.workers.{pool}", "worker")
    code, printed = forked.run_command(*worker, program="celery", env=environment, folder=tmp_path)
    assert code == 1
    assert f"this worker ends: {reason}" in printed
    assert SYNTAX in printed
