"""A Redis Cluster as one Redis: the client sends each command to the node that has its key.

A batch of commands, with one round trip to each node of a Redis Cluster, one node after the other.

    commands ─► grouped by node ─► a pipeline of each node ─► answers in the order of commands
                                        └── no answer: an error for the commands of this node

A node answers MOVED if a slot has another node now, which also happens when a replica replaces its primary. Then the
batch reads the topology again and sends these commands once more. It sends a command of a slot that is being migrated
singly, because redis-py follows such a redirection. A command without an answer may have run.

Callers that must not wait for other nodes send a batch for each node. The order of the commands for a node is kept,
except for those that it redirects. Redis-py's own pipelines of a cluster refuse scripts, and repeat each failed command
singly, which takes one time-out a command; `BatchPipeline` replaces them.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from inspect import signature
from queue import SimpleQueue
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

import redis
from redis.cluster import ClusterNode, NodesManager, RedisCluster
from redis.commands.core import DataAccessCommands
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisClusterException,
    SlotNotCoveredError,
    TryAgainError,
)

from roboco.redis.server_error import SERVER_ERRORS

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


class BatchCommand(NamedTuple):
    """A command whose keys are in one slot."""

    arguments: tuple[Any, ...]
    """The name and the arguments."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Options with which redis-py parses the answer."""

    @property
    def first_key(self) -> Any:
        """The first key. Scripts have two arguments before it."""
        return self.arguments[3 if self.arguments[0] == "EVALSHA" else 1]


MIN_REFRESH_INTERVAL: Final = 1.0
"""Seconds between two queries of the topology after errors of batches."""
_STALE_ERRORS = (MovedError, ClusterDownError, SlotNotCoveredError, redis.ConnectionError)
"""Errors after which a command is sent again. It is not after a time-out: its caller has waited already."""
_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError)
_REDIRECTIONS = (AskError, MovedError, TryAgainError)


def send_batch(cluster: LazyCluster, commands: Sequence[BatchCommand]) -> list[Any]:
    """Send the commands. Return the answer to each, or its error.

    Cost: O(commands), and one round trip to each node; two, and a query of the topology, if that has changed.
    """
    try:
        cluster.connect()
    except redis.RedisError as error:
        return [error] * len(commands)
    answers = dict[int, Any]()
    failed = _send(cluster, dict(enumerate(commands)), answers)
    if failed is not None or any(isinstance(answer, _STALE_ERRORS) for answer in answers.values()):
        _refresh(cluster, failed)
        again = {index: commands[index] for index, answer in answers.items() if isinstance(answer, _STALE_ERRORS)}
        _send(cluster, again, answers)
    for index, answer in answers.items():
        if isinstance(answer, _REDIRECTIONS):
            answers[index] = _send_singly(cluster, commands[index])
    return [answers[index] for index in range(len(commands))]


def _send(cluster: LazyCluster, commands: Mapping[int, BatchCommand], answers: dict[int, Any]) -> str | None:
    """Send the commands, and add their answers. Return the name of a node that did not answer, or None."""
    by_node: dict[str, tuple[ClusterNode, list[int]]] = {}
    for index, command in commands.items():
        try:
            node: ClusterNode = cluster.get_node_from_key(command.first_key)
        except redis.RedisError as error:  # no known node has the slot
            answers[index] = error
        else:
            by_node.setdefault(str(node.name), (node, []))[1].append(index)
    failed = None
    for name, (node, indexes) in by_node.items():
        found = send_to_server(cluster.get_redis_connection(node), [commands[index] for index in indexes])
        answers.update(zip(indexes, found, strict=True))
        failed = name if any(isinstance(one, _NO_ANSWER) for one in found) else failed
    return failed


def send_to_server(client: Any, commands: Sequence[BatchCommand]) -> list[Any]:
    """Send the commands to one server in one round trip. Return the answer to each, or its error."""
    try:
        with client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command.arguments, **command.options)
            return list(pipe.execute(raise_on_error=False))
    except (redis.DataError, UnicodeError) as error:  # one of the commands cannot be encoded: nothing was sent
        if len(commands) == 1:
            return [error]
        return [answer for command in commands for answer in send_to_server(client, [command])]
    except SERVER_ERRORS as error:
        return [error] * len(commands)


def _refresh(cluster: LazyCluster, failed: str | None) -> None:
    try:
        cluster.refresh(MIN_REFRESH_INTERVAL, failed)
    except redis.RedisError:
        return  # the commands keep their errors


def _send_singly(cluster: LazyCluster, command: BatchCommand) -> Any:
    try:
        return cluster.execute_command(*command.arguments, **command.options)
    except redis.RedisError as error:
        return error


class BatchingCluster(LazyCluster):
    """A client of a cluster whose pipelines are batches."""

    def pipeline(self, transaction: bool = False) -> "BatchPipeline":
        """Return an empty pipeline."""
        if transaction:
            raise NotImplementedError("a batch is no transaction, because its keys are on several nodes")
        return BatchPipeline(self)  # type: ignore[abstract]  # it lacks an attribute that only subscriptions need


class BatchPipeline(DataAccessCommands):
    """Commands that are sent as a batch. A node that does not answer takes one time-out, whatever its commands."""

    def __init__(self, cluster: LazyCluster) -> None:
        self._cluster = cluster
        self._commands: list[BatchCommand] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._commands = []

    def execute_command(self, *args: Any, **options: Any) -> Self:
        """Add the command."""
        self._commands.append(BatchCommand(args, options))
        return self

    def pubsub_numsub(self, *channels: str) -> Self:
        """Add a count of the subscribers of the channels: those of the first channel's node."""
        return self.execute_command("PUBSUB NUMSUB", *channels)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send the commands. Return the answers, with errors among them, or raise the first error."""
        commands, self._commands = self._commands, []
        answers = send_batch(self._cluster, commands)
        if raise_on_error and (error := next((one for one in answers if isinstance(one, Exception)), None)):
            raise error
        return answers
