"""The output of tools is logged line by line with the task and the tool, within limits, without secrets."""

import asyncio
import contextlib
import io
import logging
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context

import pytest

from roboco.telemetry.redaction import Redactor
from roboco.tools import tool_output
from roboco.tools.tool_output import MAX_CHARS, MAX_LINE_CHARS, MAX_LINES, log_output

SECRET_VALUE = "canary-of-the-shop"
SECRET_MASK = Redactor({"SHOP_TOKEN": SECRET_VALUE})


def logged_lines(caplog: pytest.LogCaptureFixture, tool: str = "refund") -> list[str]:
    named = f"tool {tool!r} of task t, "
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [text.removeprefix(named) for text in caplog.messages if text.startswith(named)]


def run_logged(tool: str, work: Callable[[], object]) -> None:
    with log_output(tool, "t", SECRET_MASK):
        work()


def test_lines_of_both_streams_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with log_output("refund", "t", SECRET_MASK):
        print("one", end=" ")
        with sys.stdout as stream:
            print("line\n\nand another", file=stream)
        print("a mistake", file=sys.stderr)
        sys.stdout.writelines(["not ", "ended"])
    assert logged_lines(caplog) == ["stdout: one line", "stdout: and another", "stderr: a mistake", "stdout: not ended"]


def fail() -> None:
    """Print a line, and run into a time limit."""
    print("of the call")
    raise TimeoutError


def test_what_is_printed_beside_calls_is_the_workers(caplog: pytest.LogCaptureFixture) -> None:
    below = io.StringIO()
    with contextlib.redirect_stdout(below):
        with pytest.raises(TimeoutError):
            run_logged("refund", fail)
        print("of the worker")
    assert (logged_lines(caplog), below.getvalue()) == (["stdout: of the call"], "of the worker\n")
    assert tool_output._running_calls == []


@pytest.mark.parametrize("text", ["x\n" * 100_000, "y" * 10_000_000, "\r" * 1000 + "z\n" * 100_000])
def test_output_of_a_call_is_bounded(caplog: pytest.LogCaptureFixture, text: str) -> None:
    with log_output("refund", "t", SECRET_MASK):
        for _ in range(3):
            sys.stdout.write(text)
    assert len(caplog.messages) <= MAX_LINES + 1
    assert sum(map(len, caplog.messages)) <= MAX_CHARS + 100 * len(caplog.messages)
    limits = f"further output is not logged ({MAX_LINES} lines, {MAX_CHARS} characters)"
    assert caplog.messages[-1] == f"tool 'refund' of task t: {limits}"


def test_secrets_are_masked_wherever_a_line_is_truncated(caplog: pytest.LogCaptureFixture) -> None:
    for length in range(MAX_LINE_CHARS - 30, MAX_LINE_CHARS + 30, 5):
        with log_output("refund", "t", SECRET_MASK):
            print("x" * length + SECRET_VALUE * 2)
            print("y" * (MAX_CHARS - length - 60) + SECRET_VALUE)
    assert "canary" not in caplog.text


def test_line_cannot_forge_another(caplog: pytest.LogCaptureFixture) -> None:
    run_logged("refund", lambda: print("a\x1b[31m\u2028\u202eb\ud800"))
    assert logged_lines(caplog) == ["stdout: a\\u001b[31m\\u2028\\u202eb\\ud800"]


def test_calls_in_several_threads_are_kept_apart(caplog: pytest.LogCaptureFixture) -> None:
    both = threading.Barrier(2, timeout=10)

    def print_lines(tool: str) -> None:
        both.wait()
        for number in range(20):
            print(f"{tool} {number}")
        both.wait()

    threads = [
        threading.Thread(target=run_logged, args=(tool, lambda tool=tool: print_lines(tool))) for tool in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tool in ("a", "b"):
        assert logged_lines(caplog, tool) == [f"stdout: {tool} {number}" for number in range(20)]


def test_threads_and_coroutines_of_a_tool_are_logged_as_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    def print_in(start: Callable[..., object]) -> None:
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()

    async def print_lines() -> None:
        await asyncio.to_thread(print, "in a coroutine's thread")

    with log_output("refund", "t", SECRET_MASK):
        print_in(lambda: print("in a thread"))
        asyncio.run(print_lines())
        context = copy_context()
    print_in(lambda: context.run(print, "later"))
    assert logged_lines(caplog) == ["stdout: in a thread", "stdout: in a coroutine's thread", "stdout: later"]
