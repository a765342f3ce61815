"""The health check of the worker of this machine or container: `python -m roboco.workers.healthcheck POOL`.

It imports the standard library only, because health checks run it every few seconds: it takes 50 ms, and `roboco
health`, which runs it, two seconds. The exit code is 0 if the worker is healthy, 1 if it is not, and 2 if that cannot
be known.
"""

import json
import os
import sys
import time
from pathlib import Path

EXIT_UNKNOWN = 2
UNSET_ERROR = (
    "ROBOCO_HEALTH_DIR is not set here, so the worker's state cannot be read: set it to a folder of this worker's own, "
    "such as /tmp/roboco-health, for the worker and for this command, and start the worker again\n"
)


def main() -> int:
    """Print the health of the pool's worker on one line. Return the exit code."""
    folder = os.environ.get("ROBOCO_HEALTH_DIR")
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m roboco.workers.healthcheck POOL\n")
        return EXIT_UNKNOWN
    if not folder:
        sys.stderr.write(UNSET_ERROR)
        return EXIT_UNKNOWN
    pool = sys.argv[1]
    found = find_problem(Path(folder) / f"{pool}.json", time.monotonic())
    sys.stdout.write(f"{pool} is unhealthy: {found}\n" if found else f"{pool} is healthy\n")
    return 1 if found else 0


def find_problem(path: Path, now: float) -> str | None:
    """Return the problem of the worker that writes this file, or None. A worker that shuts down has none."""
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        return f"it does not consume yet, is of another pool, or has another ROBOCO_HEALTH_DIR: {path} does not exist"
    if record["ending"]:
        return None
    age = now - record["time"]
    if not 0 <= age <= record["limit"]:
        return f"its main loop last ran {age:.0f} s ago: it is blocked, or its broker does not answer"
    found: str | None = record["problem"]
    return found


if __name__ == "__main__":
    sys.exit(main())
