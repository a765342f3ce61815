"""LangGraph: errands in a list in Redis, checkpoints in PostgreSQL."""

import json
from collections.abc import Iterator, Sequence

from langgraph.checkpoint.postgres import PostgresSaver
from redis import Redis

from roboco.local.valkey import start_valkey
from tests.bench.peers.langgraph_worker import ERRANDS
from tests.bench.peers.peer import TASK_TIMEOUT, Peer, follow_channel
from tests.bench.peers.postgres import postgres


class LangGraphPeer(Peer):
    """A graph with three nodes, which two processes with an event loop each run."""

    name = "LangGraph"

    def set_up(self) -> None:
        server, database = self.exits.enter_context(postgres())
        valkey = start_valkey(self.folder / "valkey")
        self.exits.callback(valkey.stop)
        self.servers += [server, valkey]
        self.environment |= {"PEER_DATABASE": database, "PEER_REDIS": valkey.url}
        self._redis = self.exits.enter_context(Redis.from_url(valkey.url, decode_responses=True, socket_timeout=None))
        with PostgresSaver.from_conn_string(database) as saver:
            saver.setup()

    def worker_command(self, number: int) -> list[str]:
        return ["tests.bench.peers.langgraph_worker"]

    def submit(self, task: str, prompts: Sequence[str]) -> None:
        self._redis.lpush(ERRANDS, json.dumps({"task": task, "prompts": list(prompts)}))

    def resubmit(self, task: str) -> None:
        self._redis.lpush(ERRANDS, json.dumps({"task": task, "prompts": None}))

    def result(self, task: str) -> str:
        answer = self._redis.blpop([f"result:{task}"], timeout=TASK_TIMEOUT)
        assert answer, f"{task} has not ended"
        return str(answer[1])

    def ended(self, task: str) -> bool:
        return bool(self._redis.exists(f"result:{task}"))

    def follow(self, task: str) -> Iterator[str]:
        return follow_channel(self._redis, f"errand:{task}")

    def stop(self, task: str) -> None:
        raise NotImplementedError("a graph ends with the process that runs it")
