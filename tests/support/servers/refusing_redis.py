"""A proxy before a Redis that answers commands with any error, as servers, proxies and providers do.

with RefusingRedis(port) as proxy:
    proxy.refuse("BUSY Redis is busy running a script.")   # from now on the answer to each command
    proxy.accept()
"""

import asyncio
import re

from roboco.lab.servers.gate import Gate, GateConnection, Side

_HANDSHAKE = frozenset({b"HELLO", b"CLIENT", b"SELECT"})


class RefusingRedis(Gate):
    """Listens on `port` within its block. It counts the commands that it has refused, by their name."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.refused: dict[str, int] = {}
        self._answer = b""
        self._pattern = re.compile("")

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

    def connect(self, client: Side, server: Side) -> GateConnection:
        return _RefusingConnection(self, client, server)

    def answer_to(self, name: bytes) -> bytes:
        """Return the error in answer to a command, and count it, or return b"" if the command is passed on."""
        command = name.decode()
        if not self._answer or name in _HANDSHAKE or not self._pattern.match(command):
            return b""
        self.refused[command] = self.refused.get(command, 0) + 1
        return self._answer


class _RefusingConnection(GateConnection):
    def __init__(self, proxy: RefusingRedis, client: Side, server: Side) -> None:
        super().__init__(proxy, client, server)
        self._proxy = proxy

    async def pass_requests(self) -> None:
        while True:
            command, name = await _read_command(self.client[0])
            answer = self._proxy.answer_to(name)
            (self.client if answer else self.server)[1].write(answer or command)


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
