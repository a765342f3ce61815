"""Celery by hand: broker, results and PUBLISH in one Valkey."""

from collections.abc import Iterator, Sequence

from redis import Redis

from roboco.local.valkey import start_valkey
from tests.bench.peers.celery_chain import application, errand, task_ids
from tests.bench.peers.errand import AGENTS
from tests.bench.peers.peer import TASK_TIMEOUT, Peer, follow_channel


class CeleryPeer(Peer):
    """A chain of three tasks, on two workers with a pool of threads each."""

    name = "Celery by hand"

    def set_up(self) -> None:
        valkey = start_valkey(self.folder / "valkey")
        self.exits.callback(valkey.stop)
        self.servers.append(valkey)
        self.environment["PEER_REDIS"] = valkey.url
        self._redis = self.exits.enter_context(Redis.from_url(valkey.url, decode_responses=True))
        self._app = application(valkey.url)
        self.exits.callback(self._app.close)

    def worker_command(self, number: int) -> list[str]:
        pool = ["--pool", "threads", "--concurrency", "100", "--loglevel", "INFO"]
        alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return ["celery", "-A", "tests.bench.peers.celery_worker", "worker", "-n", f"worker-{number}", *pool, *alone]

    def submit(self, task: str, prompts: Sequence[str]) -> None:
        errand(self._app, task, prompts).apply_async()

    def result(self, task: str) -> str:
        return str(self._app.AsyncResult(task).get(TASK_TIMEOUT)[-1])

    def ended(self, task: str) -> bool:
        return bool(self._app.AsyncResult(task).ready())

    def follow(self, task: str) -> Iterator[str]:
        return follow_channel(self._redis, f"errand:{task}")

    def stop(self, task: str) -> None:
        self._app.control.revoke(task_ids(task, len(AGENTS)), terminate=True)
