"""first_token: the time from `run` to the first text at a connected follower, against the model's first token."""

import time
from collections.abc import Iterator

from roboco import Team
from tests.bench.harness.bench_stack import BenchStack, Size, build_team
from tests.bench.harness.connected_follower import ConnectedFollower
from tests.bench.harness.results import Measurement, Result, difference, milliseconds, ratio

SUBMISSIONS = 25
MESSAGES = ({"role": "system", "content": "short"}, {"role": "user", "content": "Go."})


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Time submissions and bare model calls alternately, one at a time."""
    team = build_team("writer", prompt="short")
    rounds = [_round(stack, team, size.of(SUBMISSIONS, 3)) for _ in range(size.rounds + 1)][1:]
    names = ("run to first text", "run returns", "model's first token")
    measurements = [
        Measurement(name, tuple(tuple(row[n] for row in rows) for rows in rounds)) for n, name in enumerate(names)
    ]
    first, _, bare = measurements
    added = difference("added to the model's", first, bare)
    goals = milliseconds("added, median", added.medians, 25), milliseconds("added, p99", [added.percentile(99)], 100)
    yield Result("first_token", (*measurements, added), (*goals, ratio(first, bare)))


def _round(stack: BenchStack, team: Team, submissions: int) -> list[tuple[float, float, float]]:
    return [(*_submission(stack, team), stack.bare_model.time_call(MESSAGES)[0]) for _ in range(submissions)]


def _submission(stack: BenchStack, team: Team) -> tuple[float, float]:
    """Run a task to its end. Return the seconds to its first text, and to the return of `run`."""
    follower = ConnectedFollower(stack).wait_connected()
    began = time.perf_counter()
    stack.orchestrator.run(team, "Go.", task_id=follower.task_id)
    returned = time.perf_counter()
    follower.join()
    return follower.first_text_at - began, returned - began
