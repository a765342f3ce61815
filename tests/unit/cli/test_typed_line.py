"""A line is read as it is typed, and Ctrl-C while it is waited for is noticed."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from roboco.cli.signals import Interrupted, ctrl_c_raised
from roboco.cli.typed_line import typed_line


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where to type."""
    theirs, ours = os.pipe()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours


def test_a_line(keys: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(keys, "grün \n".encode())
    assert typed_line("> ") == "grün "
    assert capsys.readouterr().out == "> "
    os.close(keys)
    with pytest.raises(EOFError):
        typed_line("> ")


def test_ctrl_c(keys: int) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with ctrl_c_raised(), pytest.raises(Interrupted):
        typed_line("> ")
    timer.join()
    os.close(keys)
