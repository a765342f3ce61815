"""A Redis client that sends every command twice, as redis-py does when an answer got lost."""

from typing import Any

import redis


class SentTwice(redis.Redis):
    """Answers what the second sending of a command answers."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command, and send it again."""
        execute: Any = super().execute_command
        execute(*args, **options)
        return execute(*args, **options)
