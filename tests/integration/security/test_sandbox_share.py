"""A tools worker divides the memory for sandboxes by its concurrency, which options of its command line may set."""

from pathlib import Path

import pytest

from tests.support import forked
from tests.support.stack import ROOT, Stack, until


@pytest.mark.workers
@pytest.mark.parametrize("option", ["--concurrency=3", "--autoscale=3,1"])
def test_a_tools_worker_logs_once_that_a_share_is_too_small(tmp_path: Path, option: str) -> None:
    with Stack(tmp_path, pools=(), sandbox_memory=100) as stack:
        arguments = ["-A", "roboco.workers.tools", "worker", "-l", "INFO", option]
        log = tmp_path / "tools.log"
        worker = forked.start("tools", arguments, env=stack.environment, log=log, cwd=ROOT)
        try:
            until(lambda: log.exists() and " ready." in log.read_text(), 60, "the worker is ready")
        finally:
            worker.stop()
        assert log.read_text().count("ROBOCO_SANDBOX_MEMORY=100 gives each of 3 sandboxes") == 1
