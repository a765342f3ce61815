"""A Redis client that sends every command twice, as redis-py does after a lost reply."""

from typing import Any

import redis
from redis.client import Pipeline


class _DoubleSendingPipeline(Pipeline):
    """A pipeline that sends its commands twice."""

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send the commands twice. Return the second replies."""
        commands = list(self.command_stack)
        super().execute(raise_on_error)
        self.command_stack = commands
        return list(super().execute(raise_on_error))


class DoubleSendingRedis(redis.Redis):
    """A client that sends every command twice, and returns the second reply."""

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        """Return a pipeline that sends its commands twice."""
        return _DoubleSendingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command twice. Return the second reply."""
        execute: Any = super().execute_command
        execute(*args, **options)
        return execute(*args, **options)
