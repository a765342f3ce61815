"""A part that dies is started again, later and later."""

import time
from pathlib import Path

import pytest

from roboco.adapters.local.process import Server, start_server
from roboco.cli.stack import component as module
from roboco.cli.stack.celery_process import kill
from roboco.cli.stack.component import Component
from roboco.errors import TransientError


def part_in(folder: Path, script: str, sign: bytes = b"") -> Component[Server]:
    log = folder / "part.log"
    return Component("part", log, lambda: start_server("part", ["sh", "-c", script], log=log), sign)


def test_pauses_grow(tmp_path: Path) -> None:
    part = part_in(tmp_path, "exit 3")
    pauses = []
    for _ in range(3):
        part.start()
        part.server.process.wait()
        pauses.append(part.detect_death())
        assert part.detect_death() is None  # it is told once
        assert not part.is_restart_due()
    assert pauses == [0.5, 1.0, 2.0]
    assert [part.schedule_restart() for _ in range(6)] == [4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_part_that_has_worked_is_started_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = part_in(tmp_path, "exit 3")
    for steady, pause in ((60.0, 0.5), (60.0, 1.0), (-1.0, 0.5)):
        monkeypatch.setattr(module, "_STABLE_UPTIME", steady)
        part.start()
        part.server.process.wait()
        assert part.detect_death() == pause


def test_ready_is_told_once_for_each_start(tmp_path: Path) -> None:
    part = part_in(tmp_path, "echo ' ready.'; exec sleep 60", b" ready.")
    for _ in range(2):  # the second time the first one's sign stands in the log already
        part.start()
        deadline = time.monotonic() + 10
        while not part.became_ready():
            assert time.monotonic() < deadline
        assert not part.became_ready()
    assert (tmp_path / "part.log").read_text().count("ready") == 2
    kill(part.server)


def test_a_start_that_fails_is_put_off(tmp_path: Path) -> None:
    def begin() -> Server:
        raise TransientError("no port")

    part = Component("part", tmp_path / "part.log", begin)
    with pytest.raises(TransientError):
        part.start()
    assert part.schedule_restart() == 0.5
