"""Workers as the image has them: nobody's user, no capabilities, and a root that cannot be written."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from roboco.adapters.local.process import start_server
from roboco.adapters.sandbox.programs import find_programs
from tests.support.journeys import PARALLEL, answer, shape
from tests.support.stack import POOLS, ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

REFUSED = "tests may make no namespaces here: on Debian and Ubuntu see kernel.apparmor_restrict_unprivileged_userns"


def closed(folder: Path) -> list[str]:
    """What a command is begun with, so that it can write to /tmp and to this folder alone."""
    programs = next(find_programs(), None)
    user = ["--unshare-user", "--uid", "10001", "--gid", "10001", "--cap-drop", "ALL", "--die-with-parent"]
    places = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in (str(ROOT), sys.prefix):  # they may lie in /tmp
        places += ["--ro-bind", path, path]
    places += ["--bind", str(folder), str(folder), "--chdir", str(ROOT)]
    begin = [programs.bwrap, *user, *places] if programs else ["false"]
    if subprocess.run([*begin, "true"], capture_output=True).returncode:
        pytest.skip(REFUSED)
    return begin


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Each pool's worker, shut in; what it keeps, and what it notes of its health, are in its /tmp."""
    begin = closed(tmp_path)
    with ExitStack() as exits, Stack(tmp_path, [], cache_dir="/tmp/cache") as stack:
        for pool in POOLS:
            command = [
                *begin,
                sys.executable,
                "-m",
                "celery",
                "-A",
                f"roboco.workers.{pool}",
                "worker",
                "-n",
                f"{pool}-closed",
            ]
            environment = stack.environment | {
                "ROBOCO_HEALTH_DIR": f"{tmp_path}/{pool}",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            server = start_server(pool, command, env=environment, log=tmp_path / f"{pool}.log", cwd=ROOT)
            exits.callback(server.stop)
        yield stack


def test_a_journey_through_closed_workers(stack: Stack, tmp_path: Path) -> None:
    """They are healthy, and do all that workers do."""
    stack.model.script(answer)
    task = stack.orchestrator.run(PARALLEL.team, PARALLEL.prompt)
    assert task.result(60).status == PARALLEL.final_status
    assert shape(task.history()) == PARALLEL.expected
    for pool in POOLS:
        check = [sys.executable, "-m", "roboco.workers.healthcheck", pool]
        environment = os.environ | {"ROBOCO_HEALTH_DIR": f"{tmp_path}/{pool}"}
        until(lambda: not subprocess.run(check, env=environment, cwd=ROOT).returncode, 30, f"{pool} is healthy")  # noqa: B023


def test_the_root_cannot_be_written(tmp_path: Path) -> None:
    """So that the test above says something."""
    ran = subprocess.run([*closed(tmp_path), "touch", str(ROOT / "written")], capture_output=True, text=True)
    assert ran.returncode != 0
    assert "Read-only file system" in ran.stderr
