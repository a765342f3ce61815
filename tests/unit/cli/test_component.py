"""A component that dies is restarted, with growing delays."""

import time
from pathlib import Path

from roboco.cli.stack.celery_process import kill
from roboco.cli.stack.supervisor import Component
from roboco.local.process import Server, start_server


def component_in(folder: Path, script: str, ready_marker: bytes = b"") -> Component[Server]:
    log = folder / "component.log"
    return Component("component", log, lambda: start_server("component", ["sh", "-c", script], log=log), ready_marker)


def test_restart_delays_grow(tmp_path: Path) -> None:
    component = component_in(tmp_path, "exit 3")
    delays = []
    for _ in range(3):
        component.start()
        component.server.process.wait()
        delays.append(component.detect_death())
        assert component.detect_death() is None  # each death is reported once
        assert not component.is_restart_due()
    assert delays == [0.5, 1.0, 2.0]
    assert [component.schedule_restart() for _ in range(6)] == [4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_readiness_is_reported_once_for_each_start(tmp_path: Path) -> None:
    component = component_in(tmp_path, "echo ' ready.'; exec sleep 60", b" ready.")
    for _ in range(2):  # at the second start, the log holds the marker of the first
        component.start()
        deadline = time.monotonic() + 10
        while not component.became_ready():
            assert time.monotonic() < deadline
        assert not component.became_ready()
    assert (tmp_path / "component.log").read_text().count("ready") == 2
    kill(component.server)
