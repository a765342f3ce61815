"""Child processes of a local stack: none remains if a signal arrives while it is started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.local import process

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Let each child be started as this process gets Ctrl-C. Yield the children, and end those that remain."""
    children: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            children.append(self)
            super().__init__(*arguments, **options)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield children
    signal.signal(signal.SIGINT, before)
    for child in children:
        child.kill()
        child.wait()


def test_a_signal_that_arrives_while_a_server_starts_ends_the_server(
    started: list["subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        process.start_server("sleeper", SLEEP, log=tmp_path / "log")
    [child] = started
    assert child.returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
