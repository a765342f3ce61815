"""A worker imports ROBOCO_TOOL_MODULES at its start, also from its folder, or ends with the reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "pool", ["tools", *(pytest.param(pool, marks=pytest.mark.nightly) for pool in ("app", "agents", "coordinator"))]
)
def test_a_worker_that_cannot_import_its_tools_ends_with_the_reason(tmp_path: Path, pool: str) -> None:
    (tmp_path / "shop_tools.py").write_text("open('imported', 'w').close()\n")
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('no database')\n")
    celery = [sys.executable, "-P", "-m", "celery", "-A", f"roboco.workers.{pool}", "worker"]
    environment = os.environ | {
        "ROBOCO_TOOL_MODULES": "shop_tools, broken_tools",
        "ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    ended = subprocess.run(
        celery, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert ended.returncode == 1
    assert (tmp_path / "imported").exists(), "the folder of the worker is on its path"
    output = ended.stderr
    assert (
        "this worker ends: module 'broken_tools' of ROBOCO_TOOL_MODULES cannot be imported: RuntimeError: no database"
        in output
    )
    assert "install it where the workers run, start them in its folder, or change ROBOCO_TOOL_MODULES" in output
    assert 'broken_tools.py", line 1' in output


def test_a_worker_without_a_module_of_its_tools_names_it_once(tmp_path: Path) -> None:
    celery = [sys.executable, "-P", "-m", "celery", "-A", "roboco.workers.tools", "worker"]
    environment = os.environ | {"ROBOCO_TOOL_MODULES": "shoptools", "ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0"}
    ended = subprocess.run(
        celery, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert ended.stderr.count("No module named 'shoptools'") == 1
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "pool",
    ["app", *(pytest.param(pool, marks=pytest.mark.nightly) for pool in ("agents", "tools", "coordinator", "watcher"))],
)
def test_a_package_workers_of_a_shop_does_not_hide_those_of_roboco(tmp_path: Path, pool: str) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "__init__.py").write_text("")
    (tmp_path / "workers" / "app.py").write_text("import celery\napp = celery.Celery('shop')\n")
    report = [sys.executable, "-P", "-m", "celery", "-A", f"roboco.workers.{pool}", "report"]
    own = [sys.executable, "-P", "-m", "celery", "-A", "workers.app", "inspect", "--help"]
    for command in (report, own):
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
        assert ended.returncode == 0, ended.stderr
