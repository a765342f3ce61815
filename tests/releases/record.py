"""Records the states of this release: `python -m tests.releases.record`. A release that is out is never recorded again.

Needs a Redis server, which it starts.
"""

import gzip
import json
import tempfile
from importlib.metadata import version
from pathlib import Path

from roboco.local.valkey import start_valkey
from roboco.redis.client import connect
from tests.releases.deployment import Deployment
from tests.releases.dump import Dump, dump
from tests.releases.states import ALL_JOURNEYS, STATES, reachable

FOLDER = Path(__file__).parent / "recorded"


def main() -> None:
    """Record all states of this release in one file."""
    recorded: dict[str, Dump] = {}
    with tempfile.TemporaryDirectory() as parent:
        server = start_valkey(Path(parent))
        try:
            with connect(server.url) as client:
                for state in STATES:
                    folder = Path(parent) / state.name
                    folder.mkdir()
                    deployment = Deployment.of(ALL_JOURNEYS[state.journey], client, state.name, folder)
                    if reachable(state, deployment):
                        recorded[state.name] = dump(client, state.name, folder)
        finally:
            server.stop()
    data = json.dumps(recorded, sort_keys=True, separators=(",", ":")).encode()
    path = FOLDER / f"{version('roboco')}.json.gz"
    path.write_bytes(gzip.compress(data, mtime=0))
    print(f"{path.name}: {len(recorded)} states, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
