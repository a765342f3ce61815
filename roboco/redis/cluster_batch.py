"""A batch of commands, with one round trip to each node of a Redis Cluster, one node after the other.

    commands ─► grouped by node ─► a pipeline of each node ─► answers in the order of commands
                                        └── no answer: an error for the commands of this node

A node answers MOVED if a slot has another node now, which also happens when a replica replaces its primary. Then the
batch reads the topology again and sends these commands once more. It sends a command of a slot that is being migrated
singly, because redis-py follows such a redirection. A command without an answer may have run.

Callers that must not wait for other nodes send a batch for each node. The order of the commands for a node is kept,
except for those that it redirects. Redis-py's own pipelines of a cluster refuse scripts, and repeat each failed command
singly, which takes one time-out a command; `BatchPipeline` replaces them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self

import redis
from redis.cluster import ClusterNode
from redis.commands.core import DataAccessCommands
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    SlotNotCoveredError,
    TryAgainError,
)

from roboco.redis.cluster import LazyCluster
from roboco.redis.server_error import SERVER_ERRORS


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
