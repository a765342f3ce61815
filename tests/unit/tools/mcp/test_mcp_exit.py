"""ServerExit: how the process of an MCP server ended, for messages and the log."""

import pytest

from roboco.tools.mcp.transport import MAX_LINE_CHARS, ServerExit


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


def test_secrets_are_redacted_before_a_line_is_truncated() -> None:
    secret = "s" * 40
    lines = read_report(b"1\n" + b"x" * (MAX_LINE_CHARS - 20) + secret.encode()).log_lines(
        lambda text: text.replace(secret, "***")
    )
    assert lines == ["x" * (MAX_LINE_CHARS - 20) + "***"]
    assert read_report(b"1\nat redis://me:word@host/0\n").log_lines(str) == ["at redis://***@host/0"]
