"""ServerExit: how the process of an MCP server ended, for messages and the log."""

import pytest

from roboco.tools.mcp.transport import MAX_LINE_CHARS, MAX_LOGGED_LINES, ServerExit
from roboco.tools.mcp.watchdog import describe_status


def read_report(report: bytes) -> ServerExit:
    found = ServerExit()
    found.parse_report(report)
    return found


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (b"it ended\nbye", " (it ended; the log has the end of its stderr)"),
        (b"it ended\n \n", " (it ended)"),
        (b"\nbye", ""),
        (b"", ""),
    ],
)
def test_the_cause_is_reported(report: bytes, expected: str) -> None:
    assert read_report(report).message == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (1, "with exit status 1"),
        (-11, "because of signal SIGSEGV"),
        (137, "with exit status 137, as after signal SIGKILL"),
        (255, "with exit status 255"),
    ],
)
def test_the_exit_status_is_described(status: int, expected: str) -> None:
    assert describe_status(status) == f"its process ended {expected}"


def test_logged_lines_are_few_short_and_printable() -> None:
    lines = read_report(b"1\n" + b"line\n" * 50 + b"x" * 1000 + b"\r\x1b[2J\xff\t\xe2\x80\xaeend\n\n").log_lines(str)
    assert len(lines) == MAX_LOGGED_LINES
    assert lines[-2:] == ["x" * MAX_LINE_CHARS + "...", "\ufffd ?end"]


def test_secrets_are_redacted_before_a_line_is_truncated() -> None:
    secret = "s" * 40
    lines = read_report(b"1\n" + b"x" * (MAX_LINE_CHARS - 20) + secret.encode()).log_lines(
        lambda text: text.replace(secret, "***")
    )
    assert lines == ["x" * (MAX_LINE_CHARS - 20) + "***"]
    assert read_report(b"1\nat redis://me:word@host/0\n").log_lines(str) == ["at redis://***@host/0"]
