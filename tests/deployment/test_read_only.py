"""Workers as in the image: an unprivileged user, no capabilities, and a read-only root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from roboco.local.process import start_server
from roboco.tools.sandbox.programs import find_programs
from tests.support.journeys import PARALLEL, answer, shape
from tests.support.stack import POOLS, ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

NO_NAMESPACES = (
    "tests may make no namespaces here: on Debian and Ubuntu see kernel.apparmor_restrict_unprivileged_userns"
)


def read_only_prefix(folder: Path) -> list[str]:
    """Return a command prefix that permits writes to /tmp and to this folder alone."""
    programs = next(find_programs(), None)
    user = ["--unshare-user", "--uid", "10001", "--gid", "10001", "--cap-drop", "ALL", "--die-with-parent"]
    places = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in (str(ROOT), sys.prefix):  # they may lie in /tmp
        places += ["--ro-bind", path, path]
    places += ["--bind", str(folder), str(folder), "--chdir", str(ROOT)]
    prefix = [programs.bwrap, *user, *places] if programs else ["false"]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip(NO_NAMESPACES)
    return prefix


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Yield a worker of each pool with a read-only root, and its cache in its own /tmp."""
    prefix = read_only_prefix(tmp_path)
    with ExitStack() as exits, Stack(tmp_path, []) as stack:
        for pool in POOLS:
            command = [
                *prefix,
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


def test_a_journey_on_workers_with_a_read_only_root(stack: Stack, tmp_path: Path) -> None:
    """The workers complete a journey and report that they are healthy."""
    stack.model.script(answer)
    task = stack.orchestrator.run(PARALLEL.team, PARALLEL.prompt)
    assert task.result(240).status == PARALLEL.final_status  # three cold starts without stored bytecode
    assert shape(task.history()) == PARALLEL.expected
    for pool in POOLS:
        check = [sys.executable, "-m", "roboco.workers.healthcheck", pool]
        environment = os.environ | {"ROBOCO_HEALTH_DIR": f"{tmp_path}/{pool}"}
        until(lambda: not subprocess.run(check, env=environment, cwd=ROOT).returncode, 60, f"{pool} is healthy")  # noqa: B023


def test_the_root_cannot_be_written(tmp_path: Path) -> None:
    """The test above depends on this."""
    ran = subprocess.run([*read_only_prefix(tmp_path), "touch", str(ROOT / "written")], capture_output=True, text=True)
    assert ran.returncode != 0
    assert "Read-only file system" in ran.stderr
