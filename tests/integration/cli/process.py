"""The command `roboco` as a process, on a terminal or without one, and the processes that it starts."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.stack import ROOT, until

COMMAND = [sys.executable, "-m", "roboco.cli.main"]


def environment(folder: Path, model_url: str, **more: str) -> dict[str, str]:
    """Return an environment without the settings of the user who runs the tests, with its own temporary folder."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("ROBOCO_", "OPENAI_", "AWS_"))
    }
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    named = {"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "test-key", "PYTHONPATH": str(ROOT)}
    return inherited | named | {"TMPDIR": str(temporary)} | more


class CommandProcess:
    """A running command, with its output in files. It is killed on exit."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._output = folder / f"output-{time.monotonic_ns()}"
        self._errors = self._output.with_suffix(".errors")
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if kind is not None:
            print(self.output, self.errors, sep="\n--- errors\n", file=sys.stderr)

    @property
    def output(self) -> str:
        """The output until now."""
        return self._output.read_text(encoding="utf-8")

    @property
    def errors(self) -> str:
        """The stderr until now."""
        return self._errors.read_text(encoding="utf-8")

    def wait_for_text(self, text: str, count: int = 1, seconds: float = 180) -> None:
        """Wait until the command has printed the text this many times."""
        until(
            lambda: self.output.count(text) >= count or self._has_exited(),
            seconds,
            f"{text!r} is printed {count} times",
        )
        assert self.output.count(text) >= count, f"{self.output}\n--- errors\n{self.errors}"

    def send_signal(self, number: signal.Signals) -> None:
        """Send the command a signal."""
        self._process.send_signal(number)

    def wait_for_exit(self, seconds: float = 180) -> int:
        """Wait until the command has ended, and return its exit code."""
        return self._process.wait(seconds)

    def _has_exited(self) -> bool:
        return self._process.poll() is not None


_EXEC_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class CommandTerminal:
    """A running command on its own terminal. It is killed on exit."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._received = b""
        self._read_until = 0
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", _EXEC_ON_TERMINAL, *COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        if kind is not None:
            print(self.screen, file=sys.stderr)

    @property
    def screen(self) -> str:
        """The text on the terminal until now."""
        return self._received.decode(errors="replace").replace("\r\n", "\n")

    def wait_for_text(self, text: str, seconds: float = 180) -> None:
        """Wait until the command prints the text, after the text of the previous call."""
        wanted = text.encode()
        deadline = time.monotonic() + seconds
        while (found := self._received.find(wanted, self._read_until)) < 0:
            assert time.monotonic() < deadline, f"not {text!r} within {seconds:g} s:\n{self.screen}"
            assert self._read(0.5), f"ended without {text!r}:\n{self.screen}"
        self._read_until = found + len(wanted)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type_text(self, text: str) -> None:
        """Type the text. "\\x03" is Ctrl-C."""
        os.write(self._master, text.encode())

    def wait_for_exit(self, seconds: float = 180) -> int:
        """Read the output until the command has ended, and return its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.5):
            assert time.monotonic() < deadline, f"not ended within {seconds:g} s:\n{self.screen}"
        return self._process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        """Read available output for this time. Return False if no process holds the terminal any longer."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # on Linux: the other end is closed
                return False
            self._received += piece
            return piece != b""
        return True


def processes_in(folder: Path) -> dict[int, str]:
    """Return the processes that hold a file below the folder open, such as their log, even if removed (Linux only)."""
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            links = list((place / "fd").iterdir())
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(opened_file(link).startswith(f"{folder}/") for link in links):
            found[int(place.name)] = command
    return found


def opened_file(link: Path) -> str:
    """Return the file that a link of /proc/PID/fd names, or "" if the process has closed it since it was listed."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def assert_nothing_left(folder: Path) -> None:
    """Raise AssertionError if a process that writes below the folder still runs, or left a temporary folder."""
    until(lambda: not processes_in(folder), 60, "all processes have ended")
    assert list((folder / "tmp").glob("roboco-*")) == []
