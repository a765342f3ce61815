"""A proxy before a Redis that answers commands with any error, as servers, proxies and providers do.

with RefusingRedis(port) as proxy:
    proxy.refuse("BUSY Redis is busy running a script.")   # from now on the answer to each command
    proxy.accept()
"""

import asyncio
import re
import threading
from types import TracebackType
from typing import Any, Self

_HANDSHAKE = frozenset({b"HELLO", b"CLIENT", b"SELECT"})


class RefusingRedis:
    """Listens on `port` within its block. It counts the commands that it has refused, by their name."""

    def __init__(self, server_port: int) -> None:
        self.port = 0
        self.refused: dict[str, int] = {}
        self._server_port = server_port
        self._answer = b""
        self._pattern = re.compile("")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="refusing-redis", daemon=True)
        self._streams: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def refuse(self, text: str, commands: str = "", raw: bool = False) -> None:
        """Answer each command whose name matches the pattern with this error, or with these raw bytes."""
        self._pattern = re.compile(commands)
        self._answer = text.encode() if raw else f"-{text}\r\n".encode()

    def accept(self) -> None:
        """Pass all commands on again."""
        self._answer = b""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _close(self) -> None:
        self._server.close()
        for one in list(self._streams):
            one.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        await asyncio.sleep(0.01)  # the transports close in the loop's next iterations

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        writers = (writer, server)
        for way in (self._pass_commands(reader, *writers), _pass_answers(answers, *writers)):
            one = asyncio.ensure_future(way)
            self._streams.add(one)
            one.add_done_callback(self._streams.discard)

    async def _pass_commands(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                command, name = await _read_command(reader)
                if self._answer and name not in _HANDSHAKE and self._pattern.match(name.decode()):
                    self.refused[name.decode()] = self.refused.get(name.decode(), 0) + 1
                    client.write(self._answer)
                else:
                    server.write(command)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            client.close()
            server.close()


async def _read_command(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the bytes of the next command, and its name."""
    head = await reader.readuntil(b"\n")
    parts, name = [head], b""
    for number in range(int(head[1:])):
        length = await reader.readuntil(b"\n")
        word = await reader.readexactly(int(length[1:]) + 2)
        name = name or (word[:-2].upper() if number == 0 else b"")
        parts += [length, word]
    return b"".join(parts), name


async def _pass_answers(
    answers: asyncio.StreamReader, client: asyncio.StreamWriter, server: asyncio.StreamWriter
) -> None:
    try:
        while data := await answers.read(64 * 1024):
            client.write(data)
            await client.drain()
    except OSError:
        pass
    finally:
        client.close()
        server.close()
