"""The terminal shows no keys while a command prints, and shows them again however the command ends or is suspended."""

import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from tests.support.stack import ROOT, until

SHELL = """
import fcntl, os, resource, signal, sys, termios
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a background job ignores it
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
while os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpid())
    print("suspended", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, child)
    os.kill(child, signal.SIGCONT)
print("ended", flush=True)
sys.stdin.readline()
"""
"""A shell with a job: the shell has the terminal after the job is suspended or has ended."""
COMMAND = """
import sys
from roboco.cli.terminal.key_echo import key_echo
from roboco.cli.terminal.signals import install_signal_handlers
install_signal_handlers()
with key_echo(False):
    print("running", flush=True)
    sys.stdin.readline()
    with key_echo(True):
        print("asking", flush=True)
        sys.stdin.readline()
    print("working", flush=True)
    sys.stdin.readline()
"""


class Terminal:
    """A terminal whose shell runs the command."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.text = b""

    def shows_keys(self) -> bool:
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def type_text(self, text: bytes) -> None:
        os.write(self._master, text)

    def wait_for(self, text: bytes) -> None:
        """Wait until the text appears."""
        until(lambda: text in self._read(), 60, f"{text!r} appears")

    def _read(self) -> bytes:
        if select.select([self._master], [], [], 0)[0]:
            self.text += os.read(self._master, 4096)
        return self.text


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    command = [sys.executable, "-c", SHELL, COMMAND]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=ROOT) as shell:
        os.close(slave)
        yield Terminal(master)
        os.close(master)
        shell.kill()


def test_keys_are_hidden_but_at_a_question(terminal: Terminal) -> None:
    terminal.wait_for(b"running")
    assert not terminal.shows_keys()
    terminal.type_text(b"\n")
    terminal.wait_for(b"asking")
    assert terminal.shows_keys()
    terminal.type_text(b"\n")
    terminal.wait_for(b"working")
    assert not terminal.shows_keys()
    terminal.type_text(b"\n")
    terminal.wait_for(b"ended")
    assert terminal.shows_keys()


def test_keys_are_shown_while_the_command_is_suspended(terminal: Terminal) -> None:
    terminal.wait_for(b"running")
    terminal.type_text(b"\x1a")
    terminal.wait_for(b"suspended")
    assert terminal.shows_keys()
    terminal.type_text(b"\n")
    until(lambda: not terminal.shows_keys(), 60, "the command continues")


def test_keys_are_shown_after_ctrl_c(terminal: Terminal) -> None:
    terminal.wait_for(b"running")
    terminal.type_text(b"\x03")
    terminal.wait_for(b"ended")
    assert b"^C" not in terminal.text
    assert terminal.shows_keys()
