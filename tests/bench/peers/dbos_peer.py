"""DBOS: workflows in PostgreSQL, submitted and followed by its client."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from dbos import DBOSClient
from redis import Redis

from roboco.local.valkey import start_valkey
from tests.bench.peers.dbos_worker import NAME, QUEUE, STREAM, VERSION
from tests.bench.peers.peer import Peer, follow_channel
from tests.bench.peers.postgres import postgres

POLL_INTERVAL = 0.01
"""Seconds between two polls of the result; the default is a second."""


class DbosPeer(Peer):
    """A workflow with three steps, on two executors."""

    name = "DBOS"

    def set_up(self) -> None:
        server, self._url = self.exits.enter_context(postgres())
        self.servers.append(server)
        self.environment["PEER_DATABASE"] = self._url
        self._handles: dict[str, Any] = {}

    @cached_property
    def _client(self) -> Any:
        """The client, created after the first worker has created the tables."""
        client = DBOSClient(system_database_url=self._url, use_listen_notify=True, retry_connection_errors=False)
        self.exits.callback(client.destroy)
        return client

    def worker_command(self, number: int) -> list[str]:
        return ["tests.bench.peers.dbos_worker", "--executor", f"executor-{number}"]

    def submit(self, task: str, prompts: Sequence[str]) -> None:
        options = {"workflow_name": NAME, "queue_name": QUEUE, "workflow_id": task, "app_version": VERSION}
        self._handles[task] = self._client.enqueue(options, list(prompts))

    def result(self, task: str) -> str:
        return str(self._handles[task].get_result(polling_interval_sec=POLL_INTERVAL))

    def ended(self, task: str) -> bool:
        return bool(self._handles[task].get_status().status == "SUCCESS")

    def follow(self, task: str) -> Iterator[str]:
        return iter(self._client.read_stream(task, STREAM))

    def stop(self, task: str) -> None:
        self._client.cancel_workflow(task)


class DbosPublishPeer(DbosPeer):
    """The same workflow with tokens that are published in Redis, and not stored."""

    name = "DBOS with PUBLISH"

    def set_up(self) -> None:
        super().set_up()
        valkey = start_valkey(self.folder / "valkey")
        self.exits.callback(valkey.stop)
        self.servers.append(valkey)
        self.environment["PEER_REDIS"] = valkey.url
        self._redis = self.exits.enter_context(Redis.from_url(valkey.url, decode_responses=True))

    def follow(self, task: str) -> Iterator[str]:
        return follow_channel(self._redis, f"errand:{task}")
