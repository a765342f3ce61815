"""A Redis client that sends every command twice, as redis-py does when an answer got lost."""

from typing import Any

import redis
from redis.client import Pipeline


class _DoubleSendingPipeline(Pipeline):
    """Sends all that it holds, and sends it again."""

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Answers what the second sending is answered."""
        commands = list(self.command_stack)
        super().execute(raise_on_error)
        self.command_stack = commands
        return list(super().execute(raise_on_error))


class DoubleSendingRedis(redis.Redis):
    """Answers what the second sending of a command answers."""

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        """A pipeline of which the same is true."""
        return _DoubleSendingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command, and send it again."""
        execute: Any = super().execute_command
        execute(*args, **options)
        return execute(*args, **options)
