"""`python -m tests.bench.soak`: tasks under random kills, with a seed and for a time given; nothing may be lost.

Two workers of each pool run all the while that they, Redis and the S3 server are killed, stopped and ended. At the end
everything is left in peace, and what has not ended then is stuck. Recovery is measured at the model server: from the
moment at which a killed worker's connection broke in mid-turn, to the moment at which the turn is asked for again.
"""

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from roboco.adapters.local.seaweed import start_seaweed
from tests.bench.soak_faults import WORKERS, Faults
from tests.bench.soak_load import Load, says
from tests.bench.stage import Deployed
from tests.support.servers.model_server import RequestRecord
from tests.support.stack import Stack, s3_environment

LEASE = 3.0
PEACE = 120.0
"""Seconds that open tasks have to end once nothing happens any more."""
AT_ONCE = 0.5
"""Seconds within which a kill breaks the connections of the killed."""
BEFORE = 8.0
"""Seconds for which something that happened before a kill may delay what follows it."""


def main() -> int:
    """Soak, and print what came of it; the exit code is 1 if anything was lost, doubled, stuck or has failed."""
    options = _options()
    chance = random.Random(options.seed)
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="roboco-soak-")))
        s3 = start_seaweed(folder / "seaweed") if options.s3 else None
        exits.enter_context(s3_environment(s3))
        stack = exits.enter_context(
            Deployed(folder, pools=WORKERS, s3=s3, lease_seconds=LEASE, redelivery_delay=LEASE, sweep_interval=0.5)
        )
        stack.model.script(says)
        load = Load(stack, options.tasks, chance)
        faults = Faults(stack, s3, options.pause, chance)
        exits.callback(lambda: faults.s3.stop() if faults.s3 else None)
        _run(load, faults, options.seconds)
        return _report(stack, load, faults, options)


def _run(load: Load, faults: Faults, seconds: float) -> None:
    began = told = time.monotonic()
    while (now := time.monotonic()) < began + seconds or (load.open and now < began + seconds + PEACE):
        more = now < began + seconds
        faults.tend(more)
        load.tend(more)
        if now > told + 30:
            told = now
            tally = load.tally
            bad = len(tally.lost) + len(tally.doubled) + len(tally.failed)
            print(
                f"{now - began:4.0f} s: {tally.tasks} tasks have ended, {tally.steps} steps, "
                f"{sum(faults.happened.values())} faults, {bad} wrong, {len(load.open)} open",
                flush=True,
            )
        time.sleep(0.05)


def recoveries(records: list[RequestRecord], kills: list[float]) -> list[tuple[float, float]]:
    """When each turn broke that a kill had broken, and the seconds until it was asked for again."""
    found = []
    for number, record in enumerate(records):
        broke = record.client_disconnected_at
        if broke is None or not any(0 <= broke - kill <= AT_ONCE for kill in kills):
            continue
        same = (record.request.system, len(record.request.messages))
        again = [one.time for one in records[number + 1 :] if (one.request.system, len(one.request.messages)) == same]
        if again:
            found.append((broke, again[0] - broke))
    return found


def _report(stack: Stack, load: Load, faults: Faults, options: argparse.Namespace) -> int:
    tally = load.tally
    wrong = {"lost": tally.lost, "doubled": tally.doubled, "stuck": sorted(load.open), "failed": tally.failed}
    found = recoveries(stack.model.requests, faults.kills)
    meanwhile = {
        "with the other agents worker gone, too": faults.gone,
        "with a worker standing still": faults.halts,
        "with Redis or S3 away": faults.outages,
    }
    groups: dict[str, list[float]] = {"": [], **{name: [] for name in meanwhile}}
    for at, seconds in found:
        beside = [name for name, times in meanwhile.items() if any(at - BEFORE < time < at + seconds for time in times)]
        groups[beside[-1] if beside else ""].append(seconds)
    place = "S3" if options.s3 else "a folder"
    print(f"seed {options.seed}, {options.seconds:g} s, {options.tasks} tasks at once, workspace in {place}")
    print(
        f"tasks {tally.tasks} · steps {tally.steps} · kept after a restart {tally.restarts} · unknown {tally.unknown}"
    )
    print("faults " + " · ".join(f"{kind} {count}" for kind, count in sorted(faults.happened.items())))
    print(" · ".join(f"{name} {len(cases)}" for name, cases in wrong.items()))
    for name, group in groups.items():
        print(f"recovery, lease {LEASE:g} s{', ' * bool(name)}{name}: {_percentiles(group)}")
    for violation in stack.model.violations:
        print(f"the model was asked wrongly: {violation}")
    for name, cases in wrong.items():
        for case in cases:
            print(f"{name}: {case}")
    return int(any(wrong.values()) or bool(stack.model.violations))


def _percentiles(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99))
    return f"{len(ordered)} turns, p50 {p50:.2f} s, p99 {p99:.2f} s, longest {ordered[-1]:.2f} s"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description="Tasks under random kills.")
    parser.add_argument("--seconds", type=float, default=600, help="how long something happens")
    parser.add_argument("--seed", type=int, default=1, help="of what happens and when")
    parser.add_argument("--tasks", type=int, default=12, help="how many run at once")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two faults, on average")
    parser.add_argument("--s3", action="store_true", help="keep the workspace in S3, and kill that server, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
