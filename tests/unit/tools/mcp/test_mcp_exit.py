"""ServerExit: how the process of an MCP server ended, for messages and the log."""

from roboco.tools.mcp.transport import MAX_LINE_CHARS, MAX_LOGGED_LINES, ServerExit


def read_report(report: bytes) -> ServerExit:
    found = ServerExit()
    found.parse_report(report)
    return found


def test_the_cause_is_reported() -> None:
    assert read_report(b"it ended\nbye").message == " (it ended; the log has the end of its stderr)"
    assert read_report(b"it ended\n \n").message == " (it ended)"
    assert [read_report(report).message for report in (b"\nbye", b"")] == ["", ""]


def test_logged_lines_are_few_short_printable_and_without_secrets() -> None:
    lines = read_report(b"1\n" + b"line\n" * 50 + b"x" * 1000 + b"\r\x1b[2J\xff\t\xe2\x80\xaeend\n\n").log_lines(str)
    assert len(lines) == MAX_LOGGED_LINES
    assert lines[-2:] == ["x" * MAX_LINE_CHARS + "...", "\ufffd ?end"]
    secret, begin = "s" * 40, "x" * (MAX_LINE_CHARS - 20)
    report = read_report(f"1\n{begin}{secret}\nat redis://me:word@host/0\n".encode())
    assert report.log_lines(lambda text: text.replace(secret, "***")) == [f"{begin}***", "at redis://***@host/0"]
