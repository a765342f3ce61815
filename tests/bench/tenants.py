"""`python -m tests.bench.tenants`: a tenant's first token while 5,000 tasks of another tenant wait, on real workers.

The model waits for half a second before each reply, and one agents worker runs 20 turns at a time. The flood of tasks
therefore takes minutes. The bench measures the time from `run` to the first text at a follower three times: without the
flood, with the flood of another tenant, and with the flood and no tenants at all. It takes about six minutes.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from roboco import Orchestrator, parse_team
from roboco.domain.stream.item import TextPartDelta
from tests.bench.harness.bench_stack import DeployedStack
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

THINK_SECONDS = 0.5
"""Seconds until the model's first token."""
TEAM = parse_team({"name": "echo", "agents": [{"name": "echo", "prompt": "You repeat."}]})
SUBMITTERS = 4


def main() -> None:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tenants")
    parser.add_argument("--flood", type=int, default=5000, help="tasks of the flood")
    parser.add_argument("--samples", type=int, default=15, help="tasks of the other tenant in each round")
    options = parser.parse_args()
    alone = _measure(0, options.samples, "flood", "other")
    beside = _measure(options.flood, options.samples, "flood", "other")
    before = _measure(options.flood, 1, None, None)
    _print_times("alone", alone)
    _print_times(f"beside a tenant's {options.flood} tasks", beside)
    usual, worst = (figure / median(alone) for figure in (median(beside), max(beside)))
    print(f"ratio: {usual:.2f}, of the slowest one {worst:.2f}")
    print(f"with no tenants: {before[0]:.1f} s, ratio {before[0] / median(alone):.0f}")


def _print_times(name: str, times: list[float]) -> None:
    print(f"{name}: median {median(times):.2f} s ({min(times):.2f} to {max(times):.2f})")


def _measure(flood: int, samples: int, flooding: str | None, other: str | None) -> list[float]:
    """Return the seconds to the first text of each of the other tenant's tasks, while the flood waits."""
    with (
        tempfile.TemporaryDirectory(prefix="roboco-tenants-") as folder,
        DeployedStack(Path(folder), lease_seconds=15.0) as stack,
    ):
        stack.model.script(lambda request: Reply(text="done", delay=THINK_SECONDS))
        with _orchestrator(stack, flooding) as many, _orchestrator(stack, other) as one:
            with ThreadPoolExecutor(SUBMITTERS) as submitters:
                list(submitters.map(lambda number: many.run(TEAM, f"flood {number}"), range(flood)))
            if flood:
                backlog = many._engine.dispatcher.backlog
                until(lambda: backlog("flood:any" if flooding else "any") > flood // 3, 120, "the flood waits")
            return [_first_text(one, number) for number in range(samples)]


def _orchestrator(stack: Stack, tenant: str | None) -> Orchestrator:
    return Orchestrator(stack.settings.model_copy(update={"tenant": tenant}))


def _first_text(orchestrator: Orchestrator, number: int) -> float:
    began = time.perf_counter()
    task = orchestrator.run(TEAM, f"mine {number}")
    next(item for item in task.stream() if isinstance(item.data, TextPartDelta))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
