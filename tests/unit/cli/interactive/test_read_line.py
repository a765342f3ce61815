"""A line is read as it is typed, and Ctrl-C while it is waited for is noticed."""

import os
import pty
import select
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from roboco.cli.interactive.read_line import read_line
from roboco.cli.terminal.signals import Interrupted, raise_on_ctrl_c


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where to type."""
    theirs, ours = os.pipe()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours


def test_a_line(keys: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(keys, "grün \n".encode())
    assert read_line("> ") == "grün "
    assert capsys.readouterr().out == "> "
    os.close(keys)
    with pytest.raises(EOFError):
        read_line("> ")


def test_ctrl_c(keys: int) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with raise_on_ctrl_c():
        timer.start()
        with pytest.raises(Interrupted):
            read_line("> ")
    timer.join()
    os.close(keys)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where to type at a terminal."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours
    os.close(ours)


def test_lines_that_are_typed_ahead_come_one_by_one(terminal: int) -> None:
    os.write(terminal, "ein\nzwei grün\n".encode())
    assert [read_line("> "), read_line("> ")] == ["ein", "zwei grün"]
    os.write(terminal, b"half\x04\n\x04")
    assert read_line("> ") == "half"
    with pytest.raises(EOFError):
        read_line("> ")


def test_a_line_that_is_gone_when_it_is_read_is_waited_for(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C empties the terminal between the look and the read."""
    look = select.select

    def emptied(*asked: Any) -> Any:
        found = look(*asked)
        if found[0]:
            monkeypatch.setattr("select.select", look)
            termios.tcflush(terminal, termios.TCIOFLUSH)
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            os.write(terminal, b"another\n")
        return found

    monkeypatch.setattr("select.select", emptied)
    os.write(terminal, b"gone\n")
    assert read_line("> ") == "another"
