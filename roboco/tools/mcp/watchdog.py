"""A program between a worker and the MCP server that it started. It passes on the server's messages, and ends it.

Started as `watchdog.py PID VARIABLES COMMAND...` in a new session; PID is the worker, and VARIABLES are the names of
the environment's variables that the server gets. The server inherits stdin. Its stdout is read line by line: lines that
are no messages are dropped, and a message is passed on as the package can parse it, even if it has several lines. If a
message is too long, or if there is too much text between two messages, the server is ended.

When the worker closes stdin, or dies for any reason, the server has GRACE_PERIOD seconds to end. Then the watchdog
kills it, with everything in its process group. Imports nothing of Roboco, so that it starts in a few milliseconds.

stderr is a pipe to the worker. At the end the watchdog writes one line to it: how the server ended by itself, why the
watchdog ended it, or nothing. The last MAX_STDERR_BYTES bytes of the server's stderr follow. The watchdog reads that,
so a server that floods it costs the worker nothing.
"""

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

GRACE_PERIOD = 1.5
"""Seconds that a server has to end after its input was closed."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum size of a message of a server, in bytes, and of the text between two messages."""
MAX_OPEN_FILES, MAX_FILE_BYTES = 4096, 1 << 30
"""Maximum number of files that a server may hold open, and of bytes in a file that it writes."""
MAX_STDERR_BYTES = 16 * 1024
"""Bytes of the end of stderr that are reported: as many as a pipe accepts in one write."""
_POLL_MILLISECONDS = 1000
"""Milliseconds between checks that the worker lives: a process that it forked may hold stdin open."""
_STDERR_SECONDS = 0.4
"""Seconds for the rest of the stderr of an ended server: a process that it left may hold it open."""
_READ_BYTES = 256 * 1024
_MAX_TRIES, _MAX_LEVELS = 8, 150
"""Braces in a text that begin no JSON until the rest is ignored, and levels of a result; parsers refuse 200."""
_MAX_BEGUN_BYTES = 1024 * 1024
"""Bytes of a message over several lines."""
_INTERNAL_ERROR = -32603
_SIGNAL_STATUS_BASE = 128
_DECODER = json.JSONDecoder()


def messages_in(text: bytes) -> list[dict[str, Any]]:
    """Return the messages in a text of a server, in the form of the protocol.

    There may be other text before, between and after them. Parsers refuse a message for an error without a code, for a
    result that is no object, and for too many levels; so these are replaced.
    """
    decoded, found, tries = text.decode(errors="replace"), [], _MAX_TRIES
    at = decoded.find("{")
    while at >= 0 and tries:
        try:
            value, at = _DECODER.raw_decode(decoded, at)
            found += _repaired(value)
        except (ValueError, RecursionError):
            tries, at = tries - 1, at + 1
        at = decoded.find("{", at)
    return found


def line_of(message: dict[str, Any]) -> bytes:
    """Return the message as a line, with U+FFFD for each lone surrogate, which no UTF-8 can hold."""
    text = json.dumps(message, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() + b"\n"


def _repaired(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a list with the message as the protocol has it, or without it if it is none."""
    number = message.get("id")
    response = {"jsonrpc": "2.0", "id": int(number) if isinstance(number, float) and number.is_integer() else number}
    match message:
        case {"jsonrpc": _, "method": _}:
            return [_cut(message) | {"jsonrpc": "2.0"}]
        case {"jsonrpc": _} | {"id": _}:
            if (error := message.get("error")) is not None:
                known = error if isinstance(error, dict) else {"message": error}
                reason, code = known.get("message", known), known.get("code")
                reason = reason if isinstance(reason, str) else json.dumps(reason)
                code = code if isinstance(code, int) else _INTERNAL_ERROR
                return [response | {"error": {"code": code, "message": reason, "data": _cut(known.get("data"))}}]
            if "result" in message:
                result = _cut(message["result"])
                return [response | {"result": result if isinstance(result, dict) else {"content": result}}]
        case _:
            pass
    return []


def _cut(value: Any, levels: int = _MAX_LEVELS) -> Any:
    """Return the value without what is nested too deeply."""
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return "(nested too deeply)"
    if isinstance(value, dict):
        return {name: _cut(one, levels - 1) for name, one in value.items()}
    return [_cut(one, levels - 1) for one in value]


class _Messages:
    """The messages in the server's output. `fault` is the reason why it cannot be read any more, or ""."""

    def __init__(self) -> None:
        self.fault, self.ended = "", False
        self._line = b""
        self._begun = bytearray()
        self._other_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that the data completes, each as a line."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            found = self._completed(self._line + line)
            self._other_bytes = 0 if found else self._other_bytes + len(self._line) + len(line)
            self._line = b""
            yield from map(line_of, found)
        self._line += rest
        if len(self._line) > MAX_MESSAGE_BYTES:
            self.fault = f"it wrote a line of more than {MAX_MESSAGE_BYTES} bytes"
        if self._other_bytes > MAX_MESSAGE_BYTES:
            self.fault = f"it wrote more than {MAX_MESSAGE_BYTES} bytes that are no message"

    def _completed(self, line: bytes) -> list[dict[str, Any]]:
        """Return the messages in the line, or the message over several lines that it ends."""
        found = messages_in(line)
        begins, ends = line.startswith((b"{", b"[")), line.startswith((b"}", b"]"))
        if found or begins:
            self._begun.clear()
        if not found and (begins or self._begun):
            self._begun += line + b"\n"
        if ends or len(self._begun) > _MAX_BEGUN_BYTES:
            found = found or messages_in(bytes(self._begun))
            self._begun.clear()
        return found


def main(worker: int, variables: list[str], command: list[str]) -> None:
    """Run the command until it or the worker ends, then end all that is left of it."""
    _set_limits()
    woken, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    environment = {name: os.environ[name] for name in variables if name in os.environ}
    try:
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        _report(describe_status(127), str(error).encode())
        sys.exit(127)
    assert server.stdout is not None
    assert server.stderr is not None
    messages, stderr = _Messages(), bytearray()
    output = threading.Thread(target=_pass_on, args=(server.stdout.fileno(), messages, wakeup), daemon=True)
    errors = threading.Thread(target=_keep_end, args=(server.stderr.fileno(), stderr), daemon=True)
    output.start()
    errors.start()
    unasked = _watch(server, worker, messages, woken)
    if not messages.fault:
        if server.returncode is not None:
            output.join(GRACE_PERIOD)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # the worker must see the end of the server's output
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(GRACE_PERIOD)
            errors.join(_STDERR_SECONDS)
    # a truncated first line is omitted: a part of a secret could not be masked
    last_lines = stderr.partition(b"\n")[2] if len(stderr) > MAX_STDERR_BYTES else stderr
    cause = describe_status(server.returncode) if unasked and server.returncode is not None else ""
    _report(f"it was ended: {messages.fault}" if messages.fault else cause, bytes(last_lines))
    os.killpg(0, signal.SIGKILL)


def _watch(server: "subprocess.Popen[bytes]", worker: int, messages: _Messages, woken: int) -> bool:
    """Return when the server or its output has ended, its input has been closed, or the worker is gone.

    The result is True if its input is still open.
    """
    poll = select.poll()
    poll.register(0, 0)  # only the hang-up: the data belongs to the server
    poll.register(woken, select.POLLIN)
    while server.poll() is None and os.getppid() == worker and not messages.ended:
        ready = [descriptor for descriptor, _ in poll.poll(_POLL_MILLISECONDS)]
        if 0 in ready:
            return False
        if woken in ready:
            os.read(woken, 4096)  # a stopped child wakes this process, too
    return 0 not in [descriptor for descriptor, _ in poll.poll(0)]


def _pass_on(pipe: int, messages: _Messages, wakeup: int) -> None:
    """Pass on the messages that the server writes, until its output ends or cannot be read any more."""
    with contextlib.suppress(OSError):  # the worker may be gone
        data = b"\n"
        while data and not messages.fault:
            data = os.read(pipe, _READ_BYTES)
            for message in messages.feed(data or b"\n"):  # the last line may have no end
                _write(1, message)
    messages.ended = True
    os.write(wakeup, b"\0")


def _keep_end(pipe: int, kept: bytearray) -> None:
    """Read the server's stderr, and keep the end of it."""
    while data := os.read(pipe, _READ_BYTES):
        kept += data
        del kept[: -MAX_STDERR_BYTES - 1]


def describe_status(status: int) -> str:
    """Return how a process with this exit status ended."""
    number = -status if status < 0 else status - _SIGNAL_STATUS_BASE
    name = signal.Signals(number).name if number in {*signal.Signals} else ""
    if status < 0:
        return f"its process ended because of signal {name or number}"
    return f"its process ended with exit status {status}" + (f", as after signal {name}" if name else "")


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _report(cause: str, stderr: bytes) -> None:
    with contextlib.suppress(OSError):  # the worker may be gone
        os.write(2, cause.encode() + b"\n" + stderr)


def _set_limits() -> None:
    """Limit the server's resources: no core dump, which would contain its secrets, and no endless files."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
    ):
        most = resource.getrlimit(limit)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (value, value))


if __name__ == "__main__":
    main(int(sys.argv[1]), [name for name in sys.argv[2].split(",") if name], sys.argv[3:])
