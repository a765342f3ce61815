"""The Lua scripts: one file for each operation, called by hash.

Because scripts travel by hash, workers of two releases can use one Redis during a rolling deployment. Only coordinators
load scripts; other Redis users get a TransientError until a coordinator of their release has loaded them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha1
from importlib import resources
from typing import Any, NamedTuple

import redis
from redis.exceptions import NoPermissionError, NoScriptError

from roboco.errors import TransientError
from roboco.redis.cluster import BatchCommand, LazyCluster, send_batch, send_to_server
from roboco.redis.server_error import SERVER_ERRORS, is_temporary, roboco_error

_LUA_FOLDER = resources.files("roboco.redis") / "lua"
_LIBRARIES = {
    name: (_LUA_FOLDER / f"_{name}.lua").read_text()
    for name in ("end_call_wait", "bucket", "usage", "record_decision", "publish", "release_day")
}
"""The Lua functions that scripts share, each with the text that defines it. A function calls only later ones."""
_LIBRARIES_LINE = "-- Shared functions are defined here.\n"
"""The line of a script before which none of them is called. Without it, they are defined at its beginning."""
_ALLOW_OOM = "#!lua flags=allow-oom\n"
"""The first line of a script that Redis runs although its `maxmemory` is reached.

New tasks are refused long before. So tasks end, stops count and memory becomes free also while others fill Redis.
"""
_NEEDS_MEMORY = frozenset({"create", "dead_letter_add", "emit"})
"""Scripts that add most of the memory. A full Redis refuses them: the work waits, or is tried again."""

MAX_TOPOLOGY_AGE = 5.0
"""Seconds for which `load_missing` relies on the known primaries of a cluster."""


class ScriptCall(NamedTuple):
    """A call of a script."""

    name: str
    keys: list[str]
    arguments: list[Any]


class Scripts:
    """Runs scripts by name on one Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    def hash_of(self, name: str) -> str:
        """Return the hash by which the script is called."""
        return _hash(script_texts()[name])

    def run(self, name: str, keys: list[str], *args: Any) -> Any:
        """Call the script and return its answer. Raise TransientError if Redis does not answer."""
        with translating_errors():
            try:
                return call_script(self.client, name, keys, args)
            except redis.ResponseError as error:
                self._leave_server([error])
                raise

    def server_of(self, key: str) -> str:
        """Return a name of the server that has the key, as far as this client knows. This does not wait.

        The name is "" if there is one server, or if the client of a cluster has not connected yet.
        """
        return self.client.known_node_name(key) if isinstance(self.client, LazyCluster) else ""

    def run_all(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Make the calls in one round trip to each server. Return the answer to each call, or the error of that call.

        A call whose server does not answer has a TransientError. Redis may run a call twice.
        """
        if not calls:
            return []
        commands = [self._command(call) for call in calls]
        answers = self._send(commands)
        missing = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if missing:
            self._load({calls[index].name for index in missing})
            for index, answer in zip(missing, self._send([commands[index] for index in missing]), strict=True):
                answers[index] = answer
        return [_translated(answer) for answer in answers]

    def _leave_server(self, answers: Iterable[Any]) -> None:
        """Close the idle connections if an answer is a temporary error: they may lead to a replica."""
        if any(map(is_temporary, answers)) and not isinstance(self.client, LazyCluster):
            self.client.connection_pool.disconnect(inuse_connections=False)

    def _load(self, names: set[str]) -> None:
        """Load the scripts where they are missing, if the Redis user may. The servers that answer have them then."""
        with suppress(TransientError):
            load_missing(self.client, [script_texts()[name] for name in names])

    def _command(self, call: ScriptCall) -> BatchCommand:
        return BatchCommand(("EVALSHA", self.hash_of(call.name), len(call.keys), *call.keys, *call.arguments))

    def _send(self, commands: Sequence[BatchCommand]) -> list[Any]:
        if isinstance(self.client, LazyCluster):
            return send_batch(self.client, commands)
        answers = send_to_server(self.client, commands)
        self._leave_server(answers)
        return answers


@cache
def script_texts() -> dict[str, str]:
    """Return the text of each script by its name, as Redis gets it."""
    return {
        path.name.removesuffix(".lua"): _first_line(path.name.removesuffix(".lua")) + _source(path.read_text())
        for path in _LUA_FOLDER.iterdir()
        if path.name.endswith(".lua") and not path.name.startswith("_")
    }


def call_script(client: Any, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
    """Call the script by its hash and return its answer. If Redis lacks the script, load it, if the Redis user may.

    Of the users in deploy/redis-users.acl only the user of the coordinators may. Raise NoScriptError for the others.
    """
    text = script_texts()[name]
    call = (_hash(text), len(keys), *keys, *arguments)
    try:
        return client.evalsha(*call)
    except NoScriptError as missing:
        try:
            client.script_load(text)
        except NoPermissionError:
            raise missing from None
    return client.evalsha(*call)


def load_missing(client: redis.Redis, texts: Iterable[str]) -> int:
    """Load the scripts that Redis lacks, in each primary of a cluster. Return the number of loads.

    Raise TransientError if Redis does not answer. If one primary does not answer, the others have the scripts by then.
    Cost if none is missing: one SCRIPT EXISTS for each primary, O(scripts), which takes Redis 2 µs for all of Roboco's.
    In a cluster also one CLUSTER SLOTS after MAX_TOPOLOGY_AGE seconds, because a new primary lacks the scripts.
    """
    if not isinstance(client, LazyCluster):
        with translating_errors():
            return _load_missing(client, texts)
    loads, failed = 0, None
    with translating_errors():
        nodes = client.refresh(MAX_TOPOLOGY_AGE).get_primaries()
    for node in nodes:
        try:
            loads += _load_missing(client, texts, target_nodes=node)
        except SERVER_ERRORS as error:
            failed = error
    if failed is not None:
        raise roboco_error(failed) from failed
    return loads


def _load_missing(client: Any, texts: Iterable[str], **node: Any) -> int:
    by_hash = {_hash(text): text for text in texts}
    held = client.execute_command("SCRIPT EXISTS", *by_hash, **node)
    missing = [text for text, here in zip(by_hash.values(), held, strict=True) if not here]
    for text in missing:
        client.execute_command("SCRIPT LOAD", text, **node)
    return len(missing)


@cache
def _hash(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _translated(answer: Any) -> Any:
    if isinstance(answer, NoScriptError):
        return _scripts_missing()
    return roboco_error(answer) if isinstance(answer, SERVER_ERRORS) else answer


@contextmanager
def translating_errors() -> Iterator[None]:
    """Raise errors of Roboco in place of those of Redis: TransientError unless the error is final."""
    try:
        yield
    except NoScriptError as error:
        raise _scripts_missing() from error
    except SERVER_ERRORS as error:
        raise roboco_error(error) from error


def _scripts_missing() -> TransientError:
    return TransientError(
        "Redis does not hold Roboco's scripts of this release yet; a coordinator worker loads them when it starts and "
        "before each sweep: check that one of this release runs"
    )


def _first_line(name: str) -> str:
    return "" if name in _NEEDS_MEMORY else _ALLOW_OOM


def _source(operation: str) -> str:
    """Return the script with the shared functions that it calls, itself or through one of them."""
    head, line, rest = operation.partition(_LIBRARIES_LINE)
    source = rest if line else operation
    for name, library in _LIBRARIES.items():
        if f"{name}(" in source:
            source = f"{library}\n{source}"
    return f"{head}{line}{source}" if line else source
