"""shard: the part of the schedule that holds an entry.

The schedule is split into SHARDS parts. A Redis Cluster splits its keys into SLOTS slots by CRC16 of the hash tag in
braces, and gives each node ranges of slots. A shard is a range of slots: that of its tasks' keys. Its own keys have a
hash tag in the same range. So, while nodes own whole ranges, a shard lives on the node of its tasks, and a node that
does not answer affects its own shards only. Three equal nodes divide the slots inside shards 5 and 10: some tasks of
these shards are on another node than their shard.
"""

from binascii import crc_hqx
from itertools import count

SHARDS = 16
"""Parts of the schedule. Four to five times the nodes of a usual cluster, and few enough to read all in one pass."""
SLOTS = 16384
"""Hash slots of a Redis Cluster."""


def shard_of(entry: str) -> int:
    """Return the shard of a task, or of a job whose name ends in "/" and a task id."""
    return _shard_of_tag(entry.rpartition("/")[2])


def _shard_of_tag(tag: str) -> int:
    return crc_hqx(tag.encode(), 0) % SLOTS * SHARDS // SLOTS


def _tag_of(shard: int) -> str:
    return next(tag for number in count() if _shard_of_tag(tag := f"schedule/{shard}-{number}") == shard)


SHARD_TAGS = tuple(map(_tag_of, range(SHARDS)))
"""The hash tag of each shard's keys. No task id contains a "/", so no task has such a tag."""
