"""direct_calls: commands over a few connections that a client's pool keeps for them.

    take a connection ─► send ─► read ─► return it         an answer, or an error of the command
          │                │       └── lost: closed, back to the pool, and LostConnectionError
          └── idle: the last one that was returned; none: one of the pool, which connects as the client is configured

redis-py takes 40 µs of processor time for a script, of which sending and reading are 12 to 16. The rest is the pool's
bookkeeping, metrics, a poll of the socket and the machinery of retries. Here the rest is 4 µs, and a turn calls six
scripts. The caller repeats a call that has lost its connection through the client, which retries as it is configured.
A call that found no connection is not repeated: the pool has retried that already.

Kept sockets wait in the kernel: with a time-out of Python's, each send and each read polls first, which is one system
call more and one more moment at which this thread gives up the interpreter's lock. Under load it then waits for it.

A connection whose answer was not read must not be used again: the next caller would get that answer. So each one that
has not been read to the end is closed, also after an exception that a signal raises in between.
"""

import os
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

import redis

from roboco.adapters.redis.server_error import is_temporary

MAX_IDLE: Final = 16
"""Connections that are kept. Further ones return to the pool."""


class LostConnectionError(redis.ConnectionError):
    """The connection was lost during the call. Redis may have run it."""


class DirectCalls:
    """Calls of one client, from any thread. A child process takes new connections."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool: Any = client.connection_pool
        self._idle: deque[tuple[int, Any]] = deque()

    def call(self, *command: Any) -> Any:
        """Return the answer. Raise redis.ResponseError if Redis refuses the command.

        Raise LostConnectionError if the connection was lost during the call, another redis.ConnectionError if there is
        none, and redis.TimeoutError if Redis does not answer in time.
        """
        [answer] = self.call_all([command])
        if isinstance(answer, redis.ResponseError):
            raise answer
        return answer

    def call_all(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send all commands in one round trip. Return the answer to each, or its redis.ResponseError."""
        with self._connected() as connection:
            one = len(commands) == 1
            packed = connection.pack_command(*commands[0]) if one else connection.pack_commands(commands)
            connection.send_packed_command(packed)
            answers = [_read(connection) for _ in commands]
            if any(map(is_temporary, answers)):
                connection.mark_for_reconnect()  # it may lead to a replica, or have another user's rights
                self._drop_idle()  # so do those that are as old
            return answers

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        connection = self._take()
        whole = False
        try:
            yield connection
            whole = True
        except redis.ConnectionError as error:
            if isinstance(error.__context__, BlockingIOError):  # the kernel's time-out
                raise redis.TimeoutError("Timeout reading from socket, or writing to it") from error
            raise LostConnectionError(str(error)) from error
        finally:
            if whole:
                self._give_back(connection)
            else:
                connection.disconnect()
                self._pool.release(connection)

    def _take(self) -> Any:
        try:
            pid, connection = self._idle.pop()
        except IndexError:
            connection = self._pool.get_connection()
        else:
            if pid != os.getpid():
                return self._take()
        _wait_in_kernel(connection)
        return connection

    def _give_back(self, connection: Any) -> None:
        if len(self._idle) >= MAX_IDLE or connection.should_reconnect():
            _wait_in_python(connection)
            self._pool.release(connection)
        else:
            self._idle.append((os.getpid(), connection))

    def _drop_idle(self) -> None:
        """Close the kept connections and those in the pool, so that the next calls do not fail on each of them."""
        with suppress(IndexError):
            while True:
                pid, connection = self._idle.pop()
                if pid == os.getpid():
                    self._pool.release(connection)
        self._pool.disconnect(inuse_connections=False)


def _wait_in_kernel(connection: Any) -> None:
    """Have the kernel limit each wait of the connection. With TLS, Python does: its library calls the socket itself."""
    found = connection._sock  # a new one, if the connection was lost
    if isinstance(found, socket.socket) and not isinstance(found, ssl.SSLSocket) and (seconds := found.gettimeout()):
        limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        found.settimeout(None)


def _wait_in_python(connection: Any) -> None:
    """Restore the time-out that users of the pool expect."""
    if connection._sock is not None:
        connection._sock.settimeout(connection.socket_timeout)


_CALLS_BY_CLIENT: WeakKeyDictionary[redis.Redis, DirectCalls] = WeakKeyDictionary()
_lock = threading.Lock()


def direct_calls_of(client: redis.Redis) -> DirectCalls | None:
    """Return the calls of this client, or None if it is no client of a single Redis, or of an older redis-py.

    All users of a client share them, so it keeps at most MAX_IDLE connections.
    """
    if type(client) is not redis.Redis or not hasattr(redis.Connection, "mark_for_reconnect"):
        return None
    with _lock:
        return _CALLS_BY_CLIENT.setdefault(client, DirectCalls(client))


def ask(client: redis.Redis, *commands: Sequence[Any]) -> list[Any] | None:
    """Send all commands in one round trip, and return the answers as Redis gives them: redis-py does not convert them.

    Return None if the client has no direct calls, or if the connection was lost: the caller then asks through the
    client, which retries as it is configured. Raise redis.ResponseError if Redis refuses one of the commands, and the
    other errors of `DirectCalls.call`.
    """
    direct = direct_calls_of(client)
    if direct is None:
        return None
    try:
        answers = direct.call_all(commands)
    except LostConnectionError:
        return None
    for answer in answers:
        if isinstance(answer, redis.ResponseError):
            raise answer
    return answers


def _read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
