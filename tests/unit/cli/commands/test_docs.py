"""roboco docs: the list of guides, and a guide."""

import sys
from io import StringIO

import pytest
from click.testing import CliRunner

from roboco import UsageError
from roboco.cli.commands.docs import docs, pages


class TerminalBuffer(StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_a_formatted_page(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = TerminalBuffer()
    monkeypatch.setattr(sys, "stdout", screen)
    assert docs.callback is not None
    docs.callback("limits.md")
    shown = screen.getvalue()
    assert "Limits of a task" in shown
    assert "## Limits" not in shown
    assert "|---|" not in shown


def test_unknown_guide_is_an_error_that_lists_the_guides() -> None:
    error = CliRunner().invoke(docs, "nothing").exception
    assert isinstance(error, UsageError)
    assert str(error) == f"there is no guide 'nothing'; guides: {', '.join(pages())}"
