"""shared_channels: deployments in two databases of one Redis that use the same names of channels.

The databases of a server share its channels. With the same prefix, subscribers of a task in one database also receive
the messages of a task with the same id in the other one. The workers of each deployment register its workspace in its
own database, so a deployment is found there.
"""

from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import NoPermissionError

from roboco.redis.cluster import LazyCluster
from roboco.redis.keys import Keys


@dataclass(frozen=True)
class SharedChannels:
    """Another deployment with this prefix."""

    prefix: str
    own_database: int
    other_database: int
    key: str
    """The key that shows the other deployment."""
    has_priority: bool
    """True if this deployment may run: both have run before, and its database has the lower number."""

    def __str__(self) -> str:
        return (
            f"database {self.other_database} of this Redis has a deployment with the same ROBOCO_PREFIX="
            f"{self.prefix!r} as this one in database {self.own_database}. The databases of a Redis share their "
            "channels, so subscribers of one would receive messages of the other: set ROBOCO_PREFIX of one of them to "
            f"another name. If the other deployment is gone for good, delete the key {self.key!r} in database "
            f"{self.other_database}"
        )


def find_shared_channels(client: redis.Redis, keys: Keys) -> SharedChannels | None:
    """Return another deployment with these channels, the one in the database with the lowest number, or None.

    If the user of Redis lacks INFO, SELECT or GET, the answer is None. Cost: two round trips.
    """
    if isinstance(client, LazyCluster):  # it has one database
        return None
    own = int(client.connection_pool.connection_kwargs.get("db") or 0)
    try:
        found: Any = client.info("keyspace")
        others = sorted(int(name[2:]) for name in found if name[:2] == "db" and name[2:].isdigit())
        numbers = [own, *(number for number in others if number != own)]
        if len(numbers) == 1:
            return None
        pipeline: Any = client.pipeline(transaction=True)
        with pipeline as pipe:  # one connection, which is in its own database again after it
            for number in numbers:
                pipe.execute_command("SELECT", number)
                pipe.get(keys.workspace)
            pipe.execute_command("SELECT", own)
            answers = pipe.execute()
    except NoPermissionError:
        return None
    ours, *theirs = answers[1:-1:2]
    taken = [number for number, workspace in zip(numbers[1:], theirs, strict=True) if workspace]
    if not taken:
        return None
    return SharedChannels(keys.prefix, own, taken[0], keys.workspace, bool(ours) and own < taken[0])
