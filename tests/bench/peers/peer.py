"""The interface of a peer, and the management of its worker processes."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from redis import Redis

from roboco.local.process import Server, start_server, wait_ready
from tests.support.stack import ROOT

START_TIMEOUT = 60.0
"""Seconds within which a worker is ready."""
TASK_TIMEOUT = 600.0
"""Seconds within which a task of the figures ends."""


class Peer(ABC):
    """A peer whose servers and workers run within a `with` block; `model` is the base URL of the model."""

    name: ClassVar[str]

    def __init__(self, folder: Path, model: str, workers: int = 2) -> None:
        self.folder = folder
        self.environment = {"OPENAI_BASE_URL": model, "OPENAI_API_KEY": "any", "PYTHONPATH": str(ROOT)}
        self.exits = ExitStack()
        self.servers: list[Server] = []
        self.workers: list[Server] = []
        self._first = workers

    def __enter__(self) -> Self:
        self.folder.mkdir()
        try:
            self.set_up()
            self.exits.callback(self._stop_workers)
            for _ in range(self._first):
                self.add_worker()
        except BaseException:
            self.exits.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exits.close()

    @property
    def pids(self) -> list[int]:
        """The ids of all servers and workers; their children are not listed."""
        return [server.pid for server in (*self.servers, *self.workers)]

    def add_worker(self) -> None:
        """Start one more worker process, and wait until it is ready."""
        self.start_worker(len(self.workers))

    def start_worker(self, number: int) -> None:
        """Start the worker with this number, or start it again, and wait until it is ready."""
        self.workers[number : number + 1] = [self.spawn(f"worker-{number}", self.worker_command(number))]

    def spawn(self, name: str, arguments: Sequence[str]) -> Server:
        """Start `python -m ARGUMENTS`, and return the process when its log says "ready."."""
        log = self.folder / f"{name}.log"
        before = _count_ready(log)
        environment = os.environ | self.environment
        server = start_server(name, [sys.executable, "-m", *arguments], env=environment, log=log, cwd=ROOT)
        wait_ready(server, lambda: _count_ready(log) > before, START_TIMEOUT)
        return server

    def kill_worker(self) -> None:
        """Kill the first worker with SIGKILL."""
        self.workers[0].process.kill()
        self.workers[0].process.wait()

    @abstractmethod
    def set_up(self) -> None:
        """Start the servers and the client, and push their cleanup onto `exits`."""

    @abstractmethod
    def worker_command(self, number: int) -> list[str]:
        """Return the module and the arguments of a worker, whose log says "ready." when it accepts work."""

    @abstractmethod
    def submit(self, task: str, prompts: Sequence[str]) -> None:
        """Submit the errand. On return it is as durable as the peer can make it."""

    @abstractmethod
    def result(self, task: str) -> str:
        """Wait until the task has ended, and return the last agent's text."""

    @abstractmethod
    def ended(self, task: str) -> bool:
        """Return True if the task has ended. Does not block."""

    @abstractmethod
    def follow(self, task: str) -> Iterator[str]:
        """Yield the tokens live; VOID_MARK means that the turn's tokens so far are void.

        If the peer stores no log, the reader is subscribed from this call on, and misses earlier tokens.
        """

    @abstractmethod
    def stop(self, task: str) -> None:
        """Stop the errand from outside. Raise NotImplementedError with the reason if the peer cannot."""

    def resubmit(self, task: str) -> None:
        """Submit the errand again after its worker's death. Raise NotImplementedError if that has no use."""
        raise NotImplementedError(f"{self.name} continues an errand by itself, or not at all")

    def _stop_workers(self) -> None:
        for server in self.workers:
            server.process.terminate()
        for server in self.workers:
            server.stop(timeout=5)


VOID_MARK = "\0void\0"
"""Placeholder in the tokens for the event that makes the turn's earlier tokens void."""


def follow_channel(redis: Redis, channel: str) -> Iterator[str]:
    """Subscribe to the channel, and return an iterator of its messages."""
    pubsub: Any = redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    pubsub.subscribe(channel)
    pubsub.get_message(timeout=1)

    def messages() -> Iterator[str]:
        with pubsub:
            while True:
                message = pubsub.get_message(timeout=1)
                if message is not None:
                    yield str(message["data"])

    return messages()


def _count_ready(log: Path) -> int:
    return log.read_text(errors="replace").count("ready.") if log.exists() else 0
