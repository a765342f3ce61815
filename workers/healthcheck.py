"""Whether the worker of this machine or container works: `python -m roboco.workers.healthcheck POOL`.

Only the standard library, because health checks run it every few seconds: 50 ms, where `roboco health`, which runs
this, takes two seconds. The exit code is 0 for yes, 1 for no, and 2 where it cannot be known.
"""

import json
import os
import sys
import time
from pathlib import Path

USAGE = 2
UNSET = (
    "ROBOCO_HEALTH_DIR is not set here, so the worker's state cannot be read: set it to a folder of this worker's own, "
    "such as /tmp/roboco-health, for the worker and for this command, and start the worker again\n"
)


def main() -> int:
    """Say on one line how the worker of the pool is."""
    folder = os.environ.get("ROBOCO_HEALTH_DIR")
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m roboco.workers.healthcheck POOL\n")
        return USAGE
    if not folder:
        sys.stderr.write(UNSET)
        return USAGE
    pool = sys.argv[1]
    found = problem(Path(folder) / f"{pool}.json", time.monotonic())
    sys.stdout.write(f"{pool} is unhealthy: {found}\n" if found else f"{pool} is healthy\n")
    return 1 if found else 0


def problem(note: Path, now: float) -> str | None:
    """What is wrong with the worker that keeps this note, or None; one that was told to end is right to do so."""
    try:
        record = json.loads(note.read_text())
    except FileNotFoundError:
        return f"it has not begun to consume, is another pool, or has another ROBOCO_HEALTH_DIR: there is no {note}"
    if record["ending"]:
        return None
    age = now - record["time"]
    if not 0 <= age <= record["limit"]:
        return f"its main loop was last seen {age:.0f} s ago: it stands still, or its broker is away"
    told: str | None = record["problem"]
    return told


if __name__ == "__main__":
    sys.exit(main())
