"""A deployment whose clients and workers are the users of deploy/redis-users.acl."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from roboco.local.process import Server
from roboco.local.valkey import ValkeyServer
from tests.support.journeys import answer
from tests.support.stack import ROOT, Stack

USERS = ROOT / "deploy" / "redis-users.acl"
PASSWORD = "a p@ss:word/of 17"


def example_users() -> Iterator[tuple[str, list[str]]]:
    """Yield the names and rules of the users in the example, with the tests' password."""
    for line in USERS.read_text().splitlines():
        _, name, *rules = line.replace("REPLACE-THIS", PASSWORD.replace(" ", "\\0")).split()
        yield name, [rule.replace("\\0", " ") for rule in rules]


@contextmanager
def create_users(valkey: ValkeyServer) -> Iterator[dict[str, Any]]:
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        for name, rules in example_users():
            if name != "default":
                client.execute_command("ACL", "SETUSER", name, *rules)
        yield {"redis_url": url_of(valkey, "roboco-client")}


def url_of(valkey: ValkeyServer, user: str) -> str:
    password = "".join(f"%{byte:02x}" for byte in PASSWORD.encode())
    return valkey.url.replace("//", f"//{user}:{password}@")


class StackOfUsers(Stack):
    """A stack whose workers and client each connect as a Redis user of their role."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, around=create_users, health_dir=folder)

    def __enter__(self) -> Self:
        entered = super().__enter__()
        self.model.script(answer)
        denials = take_denials(self)  # a worker that starts before the coordinator tries to load a script
        if not denials <= {f"roboco-{pool} toplevel command script|load" for pool in self.workers}:
            self.__exit__(None, None, None)
            raise AssertionError(f"denied: {denials}")
        return entered

    def start(self, pool: str, modules: str | None = None, **environment: str) -> Server:
        """Start a worker of the pool as its user."""
        url = url_of(self.valkey, f"roboco-{pool.partition('-')[0]}")
        return super().start(pool, modules, ROBOCO_REDIS_URL=url, **environment)


def take_denials(stack: Stack) -> set[str]:
    """Return each kind of denial that the server has logged since the last call."""
    with redis.Redis.from_url(stack.valkey.url, decode_responses=True) as client:
        log: Any = client.acl_log()
        client.acl_log_reset()
    return {" ".join(str(one[name]) for name in ("username", "context", "reason", "object")) for one in log}
