"""A Redis Cluster of processes: three primaries with a third of the slots each, and optionally a replica of each."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.local.process import LOOPBACK, Server, free_port, start_server
from roboco.local.valkey import find_server
from tests.support.stack import until

SLOTS = 16384
PRIMARIES = 3


class Cluster:
    """A cluster that starts on entering and ends on leaving. The first three of `nodes` start as primaries.

    With replicas, a primary that does not answer for five seconds is replaced by its replica.
    """

    def __init__(self, folder: Path, replicas: bool = False) -> None:
        self._folder = folder
        self._node_timeout = 5_000 if replicas else 20_000  # ms
        self._count = PRIMARIES * (2 if replicas else 1)
        self._exits = ExitStack()
        self.nodes: list[Server] = []
        self.ports: list[int] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'{LOOPBACK}:{port}' for port in self.ports)}"

    def kill(self, number: int) -> None:
        """Kill a node with SIGKILL."""
        os.kill(self.nodes[number].pid, signal.SIGKILL)
        self.nodes[number].process.wait()

    @contextmanager
    def hanging(self, number: int) -> Iterator[None]:
        """Let a node hang until the end of the block: it accepts connections and answers nothing."""
        os.kill(self.nodes[number].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.nodes[number].pid, signal.SIGCONT)

    def ask(self, number: int, *command: Any) -> Any:
        """Return the answer of one node to a command."""
        limits: dict[str, Any] = {"socket_timeout": 5, "retry": Retry(NoBackoff(), 0), "decode_responses": True}
        with redis.Redis(host=LOOPBACK, port=self.ports[number], **limits) as client:
            return client.execute_command(*command)

    def owner(self, key: str) -> int:
        """Return the number of the node that holds the key."""
        slot = int(self.ask(self._alive(), "CLUSTER", "KEYSLOT", key))
        for first, last, (_, port, *_), *_ in self.ask(self._alive(), "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self.ports.index(int(port))
        raise AssertionError(f"no node has slot {slot}")

    def migrate(self, key: str, target: int) -> None:
        """Move the slot of the key to another primary, key by key, as an operator does."""
        source, slot = self.owner(key), int(self.ask(target, "CLUSTER", "KEYSLOT", key))
        ids = {number: self.ask(number, "CLUSTER", "MYID") for number in (source, target)}
        self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        while keys := self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1):
            self.ask(source, "MIGRATE", LOOPBACK, self.ports[target], keys[0], 0, 5000)
        for number in (target, source):
            self.ask(number, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])

    def _alive(self) -> int:
        return next(number for number, node in enumerate(self.nodes) if node.alive())

    def _start(self) -> None:
        first = free_port(2 * self._count)
        for number in range(self._count):
            port = first + 2 * number
            folder = self._folder / f"node-{number}"
            folder.mkdir(parents=True)
            arguments = {
                "port": port,
                "bind": LOOPBACK,
                "dir": folder,
                "appendonly": "yes",
                "save": "",
                "cluster-enabled": "yes",
                "cluster-port": port + 1,
                "cluster-node-timeout": self._node_timeout,
            }
            given = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
            node = start_server(f"node-{number}", [*find_server(), *given], log=folder / "log")
            self._exits.callback(node.stop)
            self.nodes.append(node)
            self.ports.append(port)
        for number in range(self._count):
            until(lambda number=number: self._answers(number), 60, f"node {number} answers")  # type: ignore[misc]
        self._join()

    def _join(self) -> None:
        for number in range(PRIMARIES):
            first, last = number * SLOTS // PRIMARIES, (number + 1) * SLOTS // PRIMARIES - 1
            self.ask(number, "CLUSTER", "ADDSLOTSRANGE", first, last)
            self.ask(number, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for port in self.ports[1:]:
            self.ask(0, "CLUSTER", "MEET", LOOPBACK, port, port + 1)
        until(lambda: all(self._known(number) == self._count for number in range(self._count)), 60, "all have met")
        for number in range(PRIMARIES, self._count):
            self.ask(number, "CLUSTER", "REPLICATE", self.ask(number - PRIMARIES, "CLUSTER", "MYID"))
        until(self._is_healthy, 60, "the cluster is up")

    def _answers(self, number: int) -> bool:
        try:
            return bool(self.ask(number, "PING"))
        except redis.RedisError:
            return False

    def _known(self, number: int) -> int:
        return len(self.ask(number, "CLUSTER NODES"))

    def _is_healthy(self) -> bool:
        """Return True if every node sees all slots served, and each primary has its replica."""
        up = all(self.ask(number, "CLUSTER INFO")["cluster_state"] == "ok" for number in range(self._count))
        linked = range(PRIMARIES, self._count)
        return up and all(self.ask(one, "INFO", "replication").get("master_link_status") == "up" for one in linked)
