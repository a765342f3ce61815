"""read_line returns lines as they are typed, also after Ctrl-C has removed one."""

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

from roboco.cli.interactive.user import read_line
from roboco.cli.terminal.signals import Interrupted, raise_on_ctrl_c


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the file descriptor of a terminal to type into."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours
    os.close(ours)


def test_lines_that_are_typed_ahead_are_read_one_by_one(terminal: int) -> None:
    os.write(terminal, "ein\nzwei grün\n".encode())
    assert [read_line("> "), read_line("> ")] == ["ein", "zwei grün"]
    os.write(terminal, b"half\x04\n\x04")
    assert read_line("> ") == "half"
    with pytest.raises(EOFError):
        read_line("> ")


def test_after_ctrl_c_removed_a_line_the_next_one_is_read(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C empties the terminal between `select` and the read."""
    real_select = select.select

    def select_then_flush(*arguments: Any) -> Any:
        found = real_select(*arguments)
        if found[0]:
            monkeypatch.setattr("select.select", real_select)
            termios.tcflush(terminal, termios.TCIOFLUSH)
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            os.write(terminal, b"another\n")
        return found

    monkeypatch.setattr("select.select", select_then_flush)
    os.write(terminal, b"gone\n")
    assert read_line("> ") == "another"


def test_ctrl_c_interrupts_the_read(terminal: int) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with raise_on_ctrl_c():
        timer.start()
        with pytest.raises(Interrupted):
            read_line("> ")
    timer.join()
