"""One sweep of one process: the fill of the schedule, then the due entries of all shards, one after the other."""

from collections.abc import Iterable

from roboco.domain.ids import shard_of
from roboco.engine.coordinate.advance import advance
from roboco.engine.engine import Engine
from roboco.engine.operate.fill import FillStep, fill_page
from roboco.engine.operate.sweep import RunPass, sweep_shard
from tests.support.memory_ports.server import MemoryServer

MAX_ENTRIES = 200
"""The most entries of a shard in one sweep."""


def fill_schedule(engine: Engine) -> FillStep:
    """Process pages of the fill until none is left for this process."""
    while (step := fill_page(engine)).moved:
        pass
    return step


def sweep(engine: Engine, server: MemoryServer, run_pass: RunPass = advance) -> int:
    """Fill the schedule if it needs that, and process the due entries. Return their number.

    Only shards with entries are asked, so that the run of a test has few port calls.
    """
    if fill_schedule(engine).blocks_passes:
        return 0
    return sum(sweep_shard(engine, shard, MAX_ENTRIES, run_pass) for shard in _shards(server))


def _shards(server: MemoryServer) -> Iterable[int]:
    with server as held:
        return sorted({shard_of(name) for name in held.schedule})
