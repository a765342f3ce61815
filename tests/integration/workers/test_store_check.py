"""A worker does not run on an S3 store without conditional writes, where one worker could replace another's step."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from roboco.local.valkey import ValkeyServer
from tests.support import forked
from tests.support.servers.loose_s3 import LooseS3, loose_s3
from tests.support.stack import ROOT, until

pytestmark = pytest.mark.slow

UNREACHABLE_REDIS = "redis://127.0.0.1:1/0"


@contextmanager
def running_worker(pool: str, store: LooseS3, folder: Path, redis_url: str) -> Iterator[Popen[bytes]]:
    """Run a worker of the pool until the block ends, with its output in `worker.log`."""
    environment = os.environ | {
        "ROBOCO_REDIS_URL": redis_url,
        "ROBOCO_PREFIX": f"w{folder.name[:30]}",
        "ROBOCO_WORKSPACE": f"s3://{store.bucket}/shop",
        "ROBOCO_S3_ENDPOINT_URL": store.endpoint_url,
        "AWS_ACCESS_KEY_ID": "roboco",
        "AWS_SECRET_ACCESS_KEY": "any",
    }
    arguments = ["-A", f"roboco.workers.{pool}", "worker", "-c", "1", "-l", "INFO"]
    worker = forked.start(pool, arguments, env=environment, log=folder / "worker.log", cwd=ROOT)
    try:
        yield worker.process
    finally:
        worker.process.kill()
        worker.process.wait()


@pytest.mark.parametrize(
    ("pool", "conditions", "cause"),
    [
        ("agents", "ignored", "does not honour If-None-Match"),
        *(
            pytest.param(pool, "ignored", "does not honour If-None-Match", marks=pytest.mark.nightly)
            for pool in ("app", "tools", "coordinator")
        ),
        ("coordinator", "501", "refuses writes with If-None-Match (501 NotImplemented)"),
    ],
)
def test_a_worker_on_a_store_without_conditions_ends_with_the_reason(
    tmp_path: Path, pool: str, conditions: str, cause: str
) -> None:
    with loose_s3(conditions=conditions) as store, running_worker(pool, store, tmp_path, UNREACHABLE_REDIS) as process:
        assert process.wait(180) == 1
        assert set(store.objects) <= {"shop/_checks/conditions"}
    output = (tmp_path / "worker.log").read_text()
    assert f"this worker ends: the S3 store of ROBOCO_WORKSPACE='s3://loose/shop' {cause}" in output
    assert "use a store that honours If-None-Match and If-Match on PUT" in output


@pytest.mark.redis
@pytest.mark.parametrize("conditions", ["ignored", pytest.param("honoured", marks=pytest.mark.nightly)])
def test_a_worker_whose_store_is_unreachable_starts_and_checks_it_later(
    tmp_path: Path, valkey: ValkeyServer, conditions: str
) -> None:
    log = tmp_path / "worker.log"
    with (
        loose_s3(conditions=conditions, unavailable=True) as store,
        running_worker("tools", store, tmp_path, valkey.url) as process,
    ):
        until(lambda: " ready." in log.read_text(), 60, log.read_text)
        assert "the S3 store is not checked yet, and is checked again every 2 s: " in log.read_text()
        assert process.poll() is None
        store.unavailable = False
        if conditions == "honoured":
            until(lambda: "the S3 store honours conditional writes" in log.read_text(), 60, log.read_text)
            assert process.poll() is None
        else:
            assert process.wait(180) == 1
            assert "this worker ends: the S3 store" in log.read_text()
