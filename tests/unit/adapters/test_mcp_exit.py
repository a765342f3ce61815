"""Exit: how the process of an MCP server has ended, for messages and the log."""

import pytest

from roboco.adapters.mcp.exit import LONGEST_LINE, MOST_LINES, Exit


def reported(report: bytes, unasked: bool = True) -> Exit:
    found = Exit()
    found.read(report, unasked)
    return found


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (b"1\n", " (its process ended with exit status 1)"),
        (b"0\nbye", " (its process ended with exit status 0; the log has the end of its stderr)"),
        (b"-11\n \n", " (its process ended because of signal SIGSEGV)"),
        (b"137\n", " (its process ended with exit status 137, as after signal SIGKILL)"),
        (b"255\n", " (its process ended with exit status 255)"),
        (b"\nbye", ""),
        (b"", ""),
    ],
)
def test_status_is_told(report: bytes, told: str) -> None:
    assert reported(report).told == told
    assert reported(report, unasked=False).told == ""


def test_lines_are_few_short_and_printable() -> None:
    lines = reported(b"1\n" + b"line\n" * 50 + b"x" * 1000 + b"\r\x1b[2J\xff\t\xe2\x80\xaeend\n\n").lines(())
    assert len(lines) == MOST_LINES
    assert lines[-2:] == ["x" * LONGEST_LINE + "...", "\ufffd ?end"]


def test_secrets_are_covered_before_a_line_is_cut() -> None:
    secret = "s" * 40
    lines = reported(b"1\n" + b"x" * (LONGEST_LINE - 20) + secret.encode()).lines((secret,))
    assert lines == ["x" * (LONGEST_LINE - 20) + "***"]
    assert reported(b"1\nat redis://me:word@host/0\n").lines(()) == ["at redis://***@host/0"]
