"""Peer: what the bench wants of each of them, and the worker processes that they have in common."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from redis import Redis

from roboco.adapters.local.process import Server, start_server, wait_ready
from tests.support.stack import ROOT

START_TIMEOUT = 60.0
"""Seconds for a worker to be ready."""
TASK_TIMEOUT = 600.0
"""Seconds for a task of the figures to end."""


class Peer(ABC):
    """A peer with its servers and workers, from entering to leaving; `model` is the base URL of the model."""

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
        """All its processes that are nobody's children here: servers and workers."""
        return [server.pid for server in (*self.servers, *self.workers)]

    def add_worker(self) -> None:
        """Start one more worker process, and return when it takes work."""
        self.start_worker(len(self.workers))

    def start_worker(self, number: int) -> None:
        """Start the worker of this number, once more if it was there before; return when it takes work."""
        self.workers[number : number + 1] = [self.spawn(f"worker-{number}", self.worker_command(number))]

    def spawn(self, name: str, arguments: Sequence[str]) -> Server:
        """`python -m ARGUMENTS`, running and ready: its log has said so."""
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
        """Start the servers, and what the caller needs; what is to be undone goes to `exits`."""

    @abstractmethod
    def worker_command(self, number: int) -> list[str]:
        """The module and the arguments of a worker, whose log says "ready." when it takes work."""

    @abstractmethod
    def submit(self, task: str, prompts: Sequence[str]) -> None:
        """Hand the errand in: it is as durable as the peer makes it when this returns."""

    @abstractmethod
    def result(self, task: str) -> str:
        """What the last agent has said, once the task has ended."""

    @abstractmethod
    def ended(self, task: str) -> bool:
        """Whether the task has ended, at one look."""

    @abstractmethod
    def follow(self, task: str) -> Iterator[str]:
        """The tokens for a reader in this process, live; VOID says that those of the turn so far are void.

        A reader of a peer without a log is there from this call on, and misses what came before.
        """

    @abstractmethod
    def stop(self, task: str) -> None:
        """Stop the errand as the peer can, from outside; NotImplementedError says why it cannot."""

    def resubmit(self, task: str) -> None:
        """Hand the errand in once more, after its worker's death; NotImplementedError where that makes no sense."""
        raise NotImplementedError(f"{self.name} takes it up by itself, or not at all")

    def _stop_workers(self) -> None:
        for server in self.workers:
            server.process.terminate()
        for server in self.workers:
            server.stop(timeout=5)


VOID_MARK = "\0void\0"
"""Stands in for what tells a reader that the turn's text up to here is void."""


def follow_channel(redis: Redis, channel: str) -> Iterator[str]:
    """The messages of a plain PUBLISH from now on."""
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
