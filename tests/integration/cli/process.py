"""The command `roboco` as a process of its own, and everything that it starts."""

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
    """An environment without settings of whoever runs the tests, with a folder for temporary files of its own."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("ROBOCO_", "OPENAI_", "AWS_"))
    }
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    named = {"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "test-key", "PYTHONPATH": str(ROOT)}
    return inherited | named | {"TMPDIR": str(temporary)} | more


class Process:
    """A running command, its output in files; on leaving it is killed, should it still run."""

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
        """What it has printed so far."""
        return self._output.read_text(encoding="utf-8")

    @property
    def errors(self) -> str:
        """The same of stderr."""
        return self._errors.read_text(encoding="utf-8")

    def says(self, text: str, count: int = 1, seconds: float = 60) -> None:
        """Wait until it has printed the text so often."""
        until(lambda: self.output.count(text) >= count or self._ended(), seconds, f"{count} times {text!r}")
        assert self.output.count(text) >= count, f"{self.output}\n--- errors\n{self.errors}"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, seconds: float = 60) -> int:
        """Wait until it has ended: its exit code."""
        return self._process.wait(seconds)

    def _ended(self) -> bool:
        return self._process.poll() is not None


_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A running command on a terminal of its own; on leaving it is killed, should it still run."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._said = b""
        self._at = 0
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *COMMAND, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        if kind is not None:
            print(self.screen, file=sys.stderr)

    @property
    def screen(self) -> str:
        """What was seen of it so far."""
        return self._said.decode(errors="replace").replace("\r\n", "\n")

    def says(self, text: str, seconds: float = 60) -> None:
        """Wait until it prints the text, after that which was waited for before."""
        wanted = text.encode()
        deadline = time.monotonic() + seconds
        while (found := self._said.find(wanted, self._at)) < 0:
            assert time.monotonic() < deadline, f"not {text!r} within {seconds:g} s:\n{self.screen}"
            assert self._read(0.5), f"ended without {text!r}:\n{self.screen}"
        self._at = found + len(wanted)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def types(self, text: str) -> None:
        """Type the text; "\\x03" is Ctrl-C."""
        os.write(self._ours, text.encode())

    def end(self, seconds: float = 60) -> int:
        """Wait until it has ended, reading what it prints: its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.5):
            assert time.monotonic() < deadline, f"not ended within {seconds:g} s:\n{self.screen}"
        return self._process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        """Read what it has printed, for a while; False once nobody holds the terminal any more."""
        if select.select([self._ours], [], [], seconds)[0]:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # as Linux tells it
                return False
            self._said += piece
            return piece != b""
        return True


def processes_in(folder: Path) -> dict[int, str]:
    """The processes that hold a file below the folder, such as their log; a removed one counts (Linux only)."""
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            held = [os.readlink(link) for link in (place / "fd").iterdir()]
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(path.startswith(f"{folder}/") for path in held):
            found[int(place.name)] = command
    return found


def assert_nothing_left(folder: Path) -> None:
    """Nothing that writes below the folder runs any more."""
    until(lambda: not processes_in(folder), 15, "nothing is left running")
    assert list((folder / "tmp").glob("roboco-*")) == []
