"""The data of a deployment as JSON: the files of its workspace, and the keys below a prefix of Redis by type."""

from pathlib import Path
from typing import Any

import redis

Dump = dict[str, Any]
MIN_TTL = 60_000
"""Milliseconds: a key with a shorter life, such as a lease, is lost before the next release starts."""


def dump(client: redis.Redis, prefix: str, folder: Path) -> Dump:
    """Return the data of a deployment."""
    keys = sorted(client.scan_iter(f"{prefix}:*", count=1000))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "instance": instance_of(client),
        "files": {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files},
        "redis": {key.removeprefix(prefix): _value(client, key) for key in keys if not 0 <= client.pttl(key) < MIN_TTL},
    }


def restore(data: Dump, client: redis.Redis, prefix: str, folder: Path) -> None:
    """Store the data, as a server that runs on and a folder."""
    for path, text in data["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="")
    for name, (kind, value) in data["redis"].items():
        same = value.replace(data["instance"], instance_of(client)) if kind == "string" else value
        _store(client, prefix + name, kind, same)


def instance_of(client: Any) -> str:
    """Return the id of the running server, which the sentinel of the schedule holds."""
    return str(client.info("server")["run_id"])


def _value(client: Any, key: str) -> tuple[str, Any]:
    match kind := client.type(key):
        case "string":
            return kind, client.get(key)
        case "hash":
            return kind, client.hgetall(key)
        case "list":
            return kind, client.lrange(key, 0, -1)
        case "set":
            return kind, sorted(client.smembers(key))
        case "zset":
            return kind, client.zrange(key, 0, -1, withscores=True)
        case "stream":
            return kind, client.xrange(key)
        case _:
            raise AssertionError(f"key {key} has the type {kind}, which a dump does not know")


def _store(client: Any, key: str, kind: str, value: Any) -> None:
    match kind:
        case "string":
            client.set(key, value)
        case "hash":
            client.hset(key, mapping=value)
        case "list":
            client.rpush(key, *value)
        case "set":
            client.sadd(key, *value)
        case "zset":
            client.zadd(key, dict(value))
        case "stream":
            for entry_id, fields in value:
                client.xadd(key, fields, id=entry_id)
        case _:
            raise AssertionError(f"a dump has a key of the type {kind}")
