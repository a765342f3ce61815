"""Explore random schedules, print the smallest case of each violation, and replay one.

python -m tests.faults.explore --minutes 60
python -m tests.faults.explore --seconds 20 --seed 7 --shape manual
python -m tests.faults.explore --case "manual 41:hold:1 0:stop:0" --trace
"""

import argparse
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from random import Random

from tests.faults.explore.case import KINDS, Case
from tests.faults.explore.explore import shrink, violations
from tests.faults.explore.shapes import SHAPES


def main() -> int:
    """Run the command. Return 1 if an invariant is broken."""
    options = _options()
    if options.case is None:
        return _explore(options)
    broken = violations(Case.parse(options.case), print if options.trace else None)
    for one in broken:
        print(one)
    print(f"{len(broken)} invariants are broken")
    return bool(broken)


def _explore(options: argparse.Namespace) -> int:
    seconds, random = options.minutes * 60 + options.seconds, Random(options.seed)
    print(f"seed {options.seed}, {seconds:g} s", flush=True)
    began, count, found = time.monotonic(), 0, Counter[str]()
    while time.monotonic() - began < seconds:
        case = Case.random(random, options.shape or tuple(SHAPES), options.without)
        count += 1
        for invariant in {broken.invariant: None for broken in violations(case)}:
            if options.only and invariant not in options.only:
                continue
            found[invariant] += 1
            if found[invariant] == 1:
                print(f"after {time.monotonic() - began:.1f} s, {count} schedules", flush=True)
                _report(shrink(case, invariant), invariant)
        if found and not options.all:
            return 1
    rate = count / (time.monotonic() - began)
    print(f"{count} schedules, {rate:.0f} a second; violations: {dict(found) or 'none'}")
    return bool(found)


def _report(case: Case, invariant: str) -> None:
    print(f"  {next(broken for broken in violations(case) if broken.invariant == invariant)}")
    print(f'  replay: python -m tests.faults.explore --trace --case "{case}"', flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=int(f"{datetime.now(UTC):%Y%m%d}"), help="default: the date")
    parser.add_argument("--shape", action="append", choices=sorted(SHAPES), help="default: all of them")
    parser.add_argument("--only", action="append", default=[], help="look for this invariant; default: for all")
    parser.add_argument("--without", action="append", default=[], choices=sorted(KINDS), help="never disturb like this")
    parser.add_argument("--all", action="store_true", help="go on after a violation, with one case of each invariant")
    parser.add_argument("--case", help="replay this case")
    parser.add_argument("--trace", action="store_true", help="with --case: print each port call")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
