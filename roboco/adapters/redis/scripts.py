"""The Lua scripts, one file an operation, sent by hash."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import redis
from redis.commands.core import Script
from redis.exceptions import ClusterDownError, ClusterError, RedisClusterException, TryAgainError

from roboco.errors import TransientError

_LUA = resources.files("roboco.adapters.redis") / "lua"
_SAY, _WRITE_DOWN = ((_LUA / name).read_text() for name in ("_say.lua", "_write_down.lua"))


_UNUSABLE = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.BusyLoadingError,
    redis.OutOfMemoryError,
    redis.ReadOnlyError,
    ClusterDownError,
    ClusterError,
    RedisClusterException,
    TryAgainError,
)


class Scripts:
    """Runs scripts by name on one Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self._scripts = {
            path.name.removesuffix(".lua"): client.register_script(_source(path.read_text()))
            for path in _LUA.iterdir()
            if path.name.endswith(".lua") and not path.name.startswith("_")
        }

    def hash_of(self, name: str) -> str:
        """The hash by which the script is called."""
        return str(self._scripts[name].sha)

    def run(self, name: str, keys: list[str], *args: Any) -> Any:
        """The script's answer; TransientError if Redis gave none."""
        script: Script = self._scripts[name]
        with answering():
            return script(keys=keys, args=list(args))


@contextmanager
def answering() -> Iterator[None]:
    """Turns the errors of a Redis that cannot be used now into TransientError."""
    try:
        yield
    except _UNUSABLE as error:
        raise TransientError(
            f"redis does not answer: {error}; check ROBOCO_REDIS_URL and that the server runs"
        ) from error


def _source(operation: str) -> str:
    if "write_down(" in operation:
        return f"{_SAY}\n{_WRITE_DOWN}\n{operation}"
    return f"{_SAY}\n{operation}" if "say(" in operation else operation
