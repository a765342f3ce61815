"""A batch of commands to a Redis Cluster, with one round trip to each node.

    commands ─► grouped by node ─► sent to each node ─► answers read from each node ─► answers in the order of commands
                                        │                      │
                                        │                      └── too late: an error for the commands of this node
                                        └── no connection: an error for the commands of this node

A node answers MOVED if a slot has another node now, which also happens when a replica replaces its primary. Then the
batch reads the topology again and sends these commands once more. It sends a command of a slot that is being migrated
singly, because redis-py follows such a redirection. A command without an answer may have run.

All commands are sent before the first answer is read: so a node that hangs delays the answers of others, but not their
commands, unless it needs a new connection. Callers that must not wait for other nodes send a batch for each node. The
order of the commands for a node is kept, except for those that it redirects. Redis-py's own pipelines refuse scripts,
and repeat each failed command singly, which takes one time-out a command; `BatchPipeline` replaces them.
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

_TAKEN_FOR: Final = () if redis.VERSION >= (5, 3) else ("EVALSHA",)
"""The command for which a connection is taken from a pool, which an older redis-py requires and does not use."""


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
    batches: dict[str, _NodeBatch] = {}
    for index, command in commands.items():
        try:
            node: ClusterNode = cluster.get_node_from_key(command.first_key)
        except redis.RedisError as error:  # no known node has the slot
            answers[index] = error
        else:
            batches.setdefault(str(node.name), _NodeBatch(cluster, node)).add(index, command)
    try:
        for batch in batches.values():
            batch.send()
        for batch in batches.values():
            batch.read()
            answers |= batch.answers
    finally:
        for batch in batches.values():
            batch.close()
    return next((name for name, batch in batches.items() if batch.failed), None)


class _NodeBatch:
    """The commands for one node."""

    def __init__(self, cluster: LazyCluster, node: ClusterNode) -> None:
        self._cluster = cluster
        self._node = node
        self._client: Any = None
        self._connection: Any = None
        self._commands: dict[int, BatchCommand] = {}
        self._unanswered: list[int] = []
        self.answers: dict[int, Any] = {}
        self.failed = False
        """True if the connection to the node was lost, or did not answer in time."""

    def add(self, index: int, command: BatchCommand) -> None:
        """Add the command to the batch."""
        self._commands[index] = command

    def send(self) -> None:
        """Send all commands. A command that cannot be encoded has an error, and does not affect the others."""
        self._unanswered = list(self._commands)
        try:
            self._client = self._cluster.get_redis_connection(self._node)
            self._connection = self._client.connection_pool.get_connection(*_TAKEN_FOR)
            self._connection.send_packed_command(self._pack())
        except redis.RedisError as error:
            self._fail(error)

    def read(self) -> None:
        """Read all answers."""
        while self._unanswered:
            self._read_answer(self._unanswered[0])

    def close(self) -> None:
        """Return the connection to the pool, closed if it has unread answers."""
        if self._connection is not None:
            if self._unanswered:
                self._connection.disconnect()
            self._client.connection_pool.release(self._connection)
            self._connection = None

    def _pack(self) -> list[bytes]:
        packed = list[bytes]()
        for index, command in self._commands.items():
            try:
                packed += self._connection.pack_command(*command.arguments)
            except (redis.DataError, UnicodeError) as error:
                self.answers[index] = error
                self._unanswered.remove(index)
        return packed

    def _read_answer(self, index: int) -> None:
        try:
            name, options = self._commands[index].arguments[0], self._commands[index].options
            self.answers[index] = self._client.parse_response(self._connection, name, **options)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self._fail(error)
            return
        except redis.RedisError as error:
            self.answers[index] = error
        self._unanswered.pop(0)

    def _fail(self, error: redis.RedisError) -> None:
        """Set the error as the answer to all commands that have none."""
        self.failed = True
        self.answers |= dict.fromkeys(self._unanswered, error)
        self._unanswered = []


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
        return BatchPipeline(self)


class BatchPipeline(DataAccessCommands):
    """Commands that are sent as a batch. A node that does not answer takes one time-out, whatever its commands."""

    _event_dispatcher: Any = None  # that of subscriptions, which no batch has

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
