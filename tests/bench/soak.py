"""`python -m tests.bench.soak`: tasks under random faults, with a seed and for a given time; no task may be lost.

Two workers of each pool run, while the bench kills, stops and terminates them, Redis and the S3 server at random. At
the end the faults cease; a task that does not end then is stuck. Recovery is measured at the model server: from the
moment at which a kill breaks a connection in the middle of a turn, to the next request of the same turn.
"""

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from roboco.local.seaweed import start_seaweed
from tests.bench.harness.bench_stack import DeployedStack
from tests.bench.harness.soak_faults import WORKERS, Faults
from tests.bench.soak_load import Load, scripted_reply
from tests.support.servers.model_server import RequestRecord
from tests.support.stack import Stack, s3_environment

LEASE = 3.0
DRAIN_TIMEOUT = 120.0
"""Seconds within which open tasks end after the last fault."""
DISCONNECT_TIMEOUT = 0.5
"""Seconds within which a kill breaks the connections of the killed worker."""
FAULT_EFFECT_SECONDS = 8.0
"""Seconds for which an earlier fault may delay the recovery from a kill."""


def main() -> int:
    """Run the soak and print its results. Return 1 if a task was lost, doubled, stuck or failed."""
    options = _options()
    rng = random.Random(options.seed)
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="roboco-soak-")))
        s3 = start_seaweed(folder / "seaweed") if options.s3 else None
        exits.enter_context(s3_environment(s3))
        stack = exits.enter_context(DeployedStack(folder, pools=WORKERS, s3=s3, lease_seconds=LEASE))
        stack.model.script(scripted_reply)
        load = Load(stack, options.tasks, rng)
        faults = Faults(stack, s3, options.pause, rng)
        exits.callback(lambda: faults.s3.stop() if faults.s3 else None)
        _run(load, faults, options.seconds)
        return _report(stack, load, faults, options)


def _run(load: Load, faults: Faults, seconds: float) -> None:
    began = printed = time.monotonic()
    while (now := time.monotonic()) < began + seconds or (load.open and now < began + seconds + DRAIN_TIMEOUT):
        more = now < began + seconds
        faults.step(more)
        load.step(more)
        if now > printed + 30:
            printed = now
            tally = load.tally
            bad = len(tally.lost) + len(tally.doubled) + len(tally.failed)
            print(
                f"{now - began:4.0f} s: {tally.tasks} tasks have ended, {tally.steps} steps, "
                f"{sum(faults.counts.values())} faults, {bad} wrong, {len(load.open)} open",
                flush=True,
            )
        time.sleep(0.05)


def recoveries(records: list[RequestRecord], kills: list[float]) -> list[tuple[float, float]]:
    """Return, for each turn that a kill broke, the time of the break and the seconds until its next request."""
    found = []
    for number, record in enumerate(records):
        broke = record.client_disconnected_at
        if broke is None or not any(0 <= broke - kill <= DISCONNECT_TIMEOUT for kill in kills):
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
        "with the other agents worker down too": faults.all_agents_down,
        "with a stopped worker": faults.pauses,
        "with Redis or S3 down": faults.outages,
    }
    groups: dict[str, list[float]] = {"": [], **{name: [] for name in meanwhile}}
    for at, seconds in found:
        beside = [
            name
            for name, times in meanwhile.items()
            if any(at - FAULT_EFFECT_SECONDS < time < at + seconds for time in times)
        ]
        groups[beside[-1] if beside else ""].append(seconds)
    place = "S3" if options.s3 else "a folder"
    print(f"seed {options.seed}, {options.seconds:g} s, {options.tasks} tasks at once, workspace in {place}")
    print(
        f"tasks {tally.tasks} · steps {tally.steps} · kept after a restart {tally.restarts} · unknown {tally.unknown}"
    )
    print("faults " + " · ".join(f"{kind} {count}" for kind, count in sorted(faults.counts.items())))
    print(" · ".join(f"{name} {len(cases)}" for name, cases in wrong.items()))
    for name, group in groups.items():
        print(f"recovery, lease {LEASE:g} s{', ' * bool(name)}{name}: {_percentiles(group)}")
    for violation in stack.model.violations:
        print(f"invalid model request: {violation}")
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
    parser.add_argument("--seconds", type=float, default=600, help="duration of the faults in seconds")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults and their times")
    parser.add_argument("--tasks", type=int, default=12, help="number of tasks at once")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two faults, on average")
    parser.add_argument("--s3", action="store_true", help="store the workspace in S3, and kill that server too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
