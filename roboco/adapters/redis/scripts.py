"""The Lua scripts, one file an operation, sent by hash."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, cast

import redis
from redis.commands.core import Script
from redis.exceptions import ClusterDownError, ClusterError, NoScriptError, RedisClusterException, TryAgainError

from roboco.adapters.redis.cluster import LazyCluster
from roboco.errors import TransientError

_LUA = resources.files("roboco.adapters.redis") / "lua"
_SAY, _WRITE_DOWN, _BUCKET = ((_LUA / name).read_text() for name in ("_say.lua", "_write_down.lua", "_bucket.lua"))


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

    def run_all(self, name: str, calls: Sequence[tuple[list[str], list[Any]]]) -> list[Any]:
        """The answers to many calls of a script, sent in one go; in place of one that Redis did not give, its error.

        TransientError if it gave none at all. It may run a call twice.
        """
        if isinstance(self.client, LazyCluster):  # whose pipelines refuse scripts
            return [self._answer_or_error(name, *call) for call in calls]
        script = self._scripts[name]
        with answering(), self.client.pipeline(transaction=False) as pipe:
            for attempt in range(2):
                for keys, arguments in calls:
                    pipe.evalsha(script.sha, len(keys), *keys, *arguments)
                answers = pipe.execute(raise_on_error=False)
                if attempt or not any(isinstance(answer, NoScriptError) for answer in answers):
                    break
                self.client.script_load(cast(str, script.script))
        return [_told(answer) for answer in answers]

    def _answer_or_error(self, name: str, keys: list[str], arguments: list[Any]) -> Any:
        try:
            return self.run(name, keys, *arguments)
        except (TransientError, redis.RedisError) as error:
            return error


def script_of(client: redis.Redis, name: str) -> Script:
    """One script on this client, for what is seldom asked."""
    return client.register_script(_source(_text(name)))


@cache
def _text(name: str) -> str:
    return (_LUA / f"{name}.lua").read_text()


def _told(answer: Any) -> Any:
    return _without(answer) if isinstance(answer, _UNUSABLE) else answer


@contextmanager
def answering() -> Iterator[None]:
    """Turns the errors of a Redis that cannot be used now into TransientError."""
    try:
        yield
    except _UNUSABLE as error:
        raise _without(error) from error


def _without(error: Exception) -> TransientError:
    return TransientError(f"redis does not answer: {error}; check ROBOCO_REDIS_URL and that the server runs")


def _source(operation: str) -> str:
    if "write_down(" in operation:
        return f"{_SAY}\n{_WRITE_DOWN}\n{operation}"
    if "bucket(" in operation:
        return f"{_BUCKET}\n{operation}"
    return f"{_SAY}\n{operation}" if "say(" in operation else operation
