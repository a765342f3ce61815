"""Exit: how the process of an MCP server has ended, for messages and the log."""

import pytest

from roboco.adapters.mcp.server_exit import MAX_LINE_CHARS, MAX_LOGGED_LINES, ServerExit


def reported(report: bytes, unasked: bool = True) -> ServerExit:
    found = ServerExit()
    found.parse_report(report, unasked)
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
    assert reported(report).message == told
    assert reported(report, unasked=False).message == ""


def test_lines_are_few_short_and_printable() -> None:
    lines = reported(b"1\n" + b"line\n" * 50 + b"x" * 1000 + b"\r\x1b[2J\xff\t\xe2\x80\xaeend\n\n").log_lines(())
    assert len(lines) == MAX_LOGGED_LINES
    assert lines[-2:] == ["x" * MAX_LINE_CHARS + "...", "\ufffd ?end"]


def test_secrets_are_covered_before_a_line_is_cut() -> None:
    secret = "s" * 40
    lines = reported(b"1\n" + b"x" * (MAX_LINE_CHARS - 20) + secret.encode()).log_lines((secret,))
    assert lines == ["x" * (MAX_LINE_CHARS - 20) + "***"]
    assert reported(b"1\nat redis://me:word@host/0\n").log_lines(()) == ["at redis://***@host/0"]
