"""The transport to an MCP server that is a child process, with JSON-RPC over its standard input and output.

The package's own transport reads lines without a limit, and logs lines that it cannot parse. If the worker is killed,
it leaves a server running that ignores the end of its input.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from roboco.adapters.mcp import watchdog
from roboco.adapters.mcp.streams import MAX_MESSAGE_BYTES, MessageStreams

MAX_INVALID_LINES = 1000
"""Maximum number of lines that are not messages; a server that writes more is abandoned."""
_REAP_TIMEOUT = 1.0
_POLL_INTERVAL = 0.01
_STREAM_ERRORS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
_log = logging.getLogger(__name__)


@asynccontextmanager
async def stdio_streams(command: tuple[str, ...], environment: dict[str, str]) -> AsyncIterator[MessageStreams]:
    """Start the command, and end it at the end of the context; then its exit status is known."""
    report, reported = os.pipe()
    os.set_blocking(report, False)
    try:
        process = await _start_process(command, environment, reported)
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(reported)
    into_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage]()
    streams, ended = MessageStreams(from_server, to_server, anyio.Event()), anyio.Event()
    with into_session, from_server, to_server, from_session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, into_session, streams.gone, ended)
            tasks.start_soon(_write, process, from_session, streams.gone, ended)
            try:
                yield streams
            finally:
                unasked = ended.is_set()  # from here on the server ends because the worker ends it
                with anyio.CancelScope(shield=True):
                    await _end_process(process)
                streams.exit.parse_report(_read_report(report), unasked)
                tasks.cancel_scope.cancel()


async def _start_process(command: tuple[str, ...], environment: dict[str, str], report: int) -> Process:
    return await anyio.open_process(
        [sys.executable, "-I", "-S", str(Path(watchdog.__file__)), str(os.getpid()), str(report), *command],
        env=environment,
        stderr=subprocess.DEVNULL,  # of the watchdog itself
        start_new_session=True,
        pass_fds=(report,),
    )


def _read_report(report: int) -> bytes:
    """Return the watchdog's report and close the pipe. Return b"" if the watchdog was killed."""
    try:
        return os.read(report, 2 * watchdog.MAX_STDERR_BYTES)
    except BlockingIOError:  # a process that was forked meanwhile holds the other end
        return b""
    finally:
        os.close(report)


async def _read(
    process: Process,
    into_session: MemoryObjectSendStream[SessionMessage | Exception],
    gone: anyio.Event,
    ended: anyio.Event,
) -> None:
    """Pass on the server's messages until its output ends or is unusable; then set `gone`.

    `ended` is set only if the output ended.
    """
    invalid_lines = 0
    assert process.stdout is not None
    lines = BufferedByteReceiveStream(process.stdout)
    try:
        while invalid_lines < MAX_INVALID_LINES:
            line = await lines.receive_until(b"\n", MAX_MESSAGE_BYTES)
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                invalid_lines += 1
            else:
                await into_session.send(SessionMessage(message))
        _log.warning("an MCP server was abandoned: it wrote %d lines that are not messages", invalid_lines)
    except anyio.DelimiterNotFound:
        _log.warning("an MCP server was abandoned: it wrote a line of more than %d bytes", MAX_MESSAGE_BYTES)
    except (anyio.IncompleteRead, anyio.EndOfStream):
        ended.set()
    except _STREAM_ERRORS:
        pass  # the session learns of it by `gone` and by the end of the stream
    finally:
        gone.set()
        into_session.close()


async def _write(
    process: Process, from_session: MemoryObjectReceiveStream[SessionMessage], gone: anyio.Event, ended: anyio.Event
) -> None:
    """Send the session's messages to the server. If the server does not read any more, set `gone` and `ended`."""
    assert process.stdin is not None
    try:
        async for message in from_session:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(line.encode() + b"\n")
    except _STREAM_ERRORS:
        ended.set()
        gone.set()


async def _end_process(process: Process) -> None:
    """Close the server's input, let the watchdog end it, and kill whatever is left."""
    assert process.stdin is not None
    with suppress(*_STREAM_ERRORS):
        await process.stdin.aclose()
    if not await _wait_exit(process, watchdog.GRACE_PERIOD + _REAP_TIMEOUT):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await _wait_exit(process, _REAP_TIMEOUT)
    # no public method closes a pipe that holds unread output, or that a process outside of the group keeps open
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()


async def _wait_exit(process: Process, seconds: float) -> bool:
    """Return True if the process ends in time. `wait` would also wait for pipes that other processes may hold open."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_POLL_INTERVAL)
    return process.returncode is not None
