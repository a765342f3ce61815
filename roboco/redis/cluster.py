"""A Redis Cluster as one Redis: the client sends each command to the node that has its key."""

import threading
import time
from inspect import signature
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit, urlunsplit

import redis
from redis.cluster import NodesManager, RedisCluster
from redis.commands.core import Script
from redis.exceptions import RedisClusterException

_SCHEMES: Final = {"redis+cluster": "redis", "rediss+cluster": "rediss"}


def is_cluster(url: str) -> bool:
    """Return True if the URL names a cluster."""
    return urlsplit(url).scheme in _SCHEMES


def node_url(url: str, address: str) -> str:
    """Return the URL of the node at this host and port, as a client of a single Redis needs it."""
    parts = urlsplit(url)
    user, separator, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(scheme=_SCHEMES[parts.scheme], netloc=f"{user}{separator}{address}"))


def node_urls(url: str) -> list[str]:
    """Return the URL of each node that this URL names. Raise ValueError if a port is no number."""
    nodes = [urlsplit(f"//{one}") for one in urlsplit(url).netloc.rpartition("@")[2].split(",")]
    return [node_url(url, node.netloc if node.port else f"{node.netloc}:6379") for node in nodes]


class _Cluster(RedisCluster):
    """A client that repeats a command after a lost connection, but not after a time-out: its caller has waited."""

    ERRORS_ALLOW_RETRY: Any = tuple(
        error for error in RedisCluster.ERRORS_ALLOW_RETRY if error is not redis.TimeoutError
    )
    COMMAND_FLAGS: Any = {**RedisCluster.COMMAND_FLAGS, "COMMAND": RedisCluster.RANDOM}
    """The first command of a client goes to any node: the first one by slots may hang."""


_KNOWS_FAILED_NODE: Final = "last_failed_node_name" in signature(NodesManager.initialize).parameters


class LazyCluster:
    """A client of a cluster that connects at its first use. It takes the commands of a client of a single Redis."""

    def __init__(self, nodes: list[str], options: dict[str, Any]) -> None:
        self._nodes = nodes
        self._options = options
        self._lock = threading.Lock()
        self._cluster: RedisCluster | None = None
        self._refreshed_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connect(), name)

    def register_script(self, script: str) -> Script:
        """Return a script for this client. All keys of a call must be in one slot."""
        return Script(cast(Any, self), cast(Any, script.encode()))

    def known_node_name(self, key: str) -> str:
        """Return the name of the node that has the key, as far as this client knows, or "". This does not wait."""
        cluster: Any = self._cluster
        try:
            return "" if cluster is None else str(cluster.get_node_from_key(key).name)
        except RedisClusterException:  # no known node has the slot
            return ""

    def refresh(self, max_age: float = 0.0, failed: str | None = None) -> Self:
        """Read the topology of the cluster again if it is older than `max_age` seconds. Return this client.

        The node named `failed` is asked last, if redis-py can do that.
        """
        cluster = self.connect()
        if time.monotonic() - self._refreshed_at > max_age:
            hint: dict[str, Any] = {"last_failed_node_name": failed} if _KNOWS_FAILED_NODE else {}
            cluster.nodes_manager.initialize(**hint)
            self._refreshed_at = time.monotonic()
        return self

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._cluster is not None:
                self._cluster.close()
                self._cluster = None

    def connect(self) -> RedisCluster:
        """Return the client, connected. Raise redis.ConnectionError or TimeoutError if no node in the URL answers."""
        with self._lock:
            if self._cluster is None:
                self._cluster = self._connect_any()
            return self._cluster

    def _connect_any(self) -> RedisCluster:
        """Return the client of the first node that answers. All are asked at once: if all hang, it waits once."""
        answers = SimpleQueue[RedisCluster | Exception]()
        for node in self._nodes:
            threading.Thread(target=self._connect_one, args=(node, answers), daemon=True).start()
        errors = list[Exception]()
        while len(errors) < len(self._nodes):
            if isinstance(answer := answers.get(), RedisCluster):
                return answer
            errors.append(answer)
        raise next((error for error in errors if not isinstance(error, redis.TimeoutError)), errors[-1])

    def _connect_one(self, node: str, answers: "SimpleQueue[RedisCluster | Exception]") -> None:
        try:
            answers.put(_Cluster(url=node, **self._options))
        except RedisClusterException as error:
            kind = type(error.__cause__)  # after a time-out its caller has waited: no command is repeated
            answers.put((kind if kind is redis.TimeoutError else redis.ConnectionError)(str(error)))
        except Exception as error:  # `_connect_any` raises it
            answers.put(error)
