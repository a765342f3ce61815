"""parallel_tools: the time of 20 tool calls of 100 ms in one step, from the step with the calls to that of the results.

Here the tools pool has a process for each call; by default it has one for each processor. The baseline is the runtime
of the longest call, from its result. Later benches on the same stack keep this pool.
"""

from collections.abc import Iterator
from itertools import pairwise

from roboco import Team
from tests.bench.harness.bench_stack import BenchStack, Size, build_team
from tests.bench.harness.results import Measurement, Result, milliseconds, ratio
from tests.bench.processes.nap_tool import SECONDS
from tests.bench.processes.wide.tools import PROCESSES

TASKS = 10
GOAL = 200


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure tasks whose only agent makes all calls in its first turn."""
    tool = {"name": "nap", "function": "tests.bench.processes.nap_tool:nap", "effect": "pure", "timeout": 20}
    member = {"name": "one", "prompt": f"tools {PROCESSES}", "tools": ["nap"]}
    team = build_team(agents=[member], tools=[tool])
    stack.replace_worker("tools", "tests.bench.processes.wide")
    rounds = [[_time_calls(stack, team) for _ in range(size.of(TASKS))] for _ in range(size.rounds + 1)][1:]
    whole, alone = (
        Measurement(name, tuple(tuple(found[place] for found in one) for one in rounds))
        for place, name in enumerate((f"{PROCESSES} calls of {SECONDS * 1000:g} ms", "the longest of them alone"))
    )
    yield Result("parallel_tools", (whole, alone), (milliseconds(whole.name, whole.medians, GOAL), ratio(whole, alone)))


def _time_calls(stack: BenchStack, team: Team) -> tuple[float, float]:
    """Return the seconds from the step with the calls to that of the results, and those of the longest call."""
    history = stack.run_team(team).history()
    for calls, results in pairwise(history):
        if results.results:
            assert [one.is_error for one in results.results] == [False] * PROCESSES, results
            took = (results.created_at - calls.created_at).total_seconds()
            return took, max(one.runtime_ms for one in results.results) / 1000
    raise AssertionError(f"no step has results: {history}")
