"""The bar of a command that takes longer than two seconds."""

import io
import sys

import pytest

from roboco.cli.terminal import progress as module
from roboco.cli.terminal.progress import progress


class Output(io.StringIO):
    """An output that may be a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "quiet", "shown"), [(True, 0.0, True), (True, 60.0, False), (False, 0.0, False)]
)
def test_a_bar_is_shown_on_a_terminal_after_a_while(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, quiet: float, shown: bool
) -> None:
    output = Output(is_terminal)
    monkeypatch.setattr(sys, "stderr", output)
    monkeypatch.setattr(module, "QUIET_SECONDS", quiet)
    monkeypatch.setenv("TERM", "xterm")
    with progress("erasing tasks", 10) as show:
        show(3)
        show(4)
    assert ("erasing tasks" in output.getvalue()) is shown
    assert ("4 of 10" in output.getvalue()) is shown
