"""The command `roboco` as a process of its own, and everything that it starts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.stack import ROOT, until

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
