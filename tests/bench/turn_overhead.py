"""turn_overhead: a turn of a long task, against two plain Celery tasks on the same broker and in the same pools.

A turn consists of two hops (the messages to the agents worker and to the coordinator), a model call, and the work of
Roboco. The bench also measures the bare model call, so that the rest of a turn can be compared with two plain hops.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from roboco import Task, Team
from roboco.domain.prompt.working_memory import PromptInputs, build_working_memory
from tests.bench.harness.bench_stack import BenchStack, Size, build_team, new_name
from tests.bench.harness.results import Result, Sampler, measure_alternately, ratio, turn_times
from tests.bench.processes import plain_celery

TURNS, SLICES = 50, 3
GOAL = 1.5


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure a turn, two hops, and the model call alternately."""
    turns = size.of(TURNS, 10)
    team = team_with_turns(turns)
    messages = last_messages(team, stack.run_team(team))
    stack.ensure_workers(plain_celery.POOLS, "tests.bench.processes.plain_celery")
    samplers: dict[str, Sampler] = {
        "turn": lambda _: turn_times(stack.run_team(team).history()),
        "two hops": lambda _: time_hops(stack, turns),
        "model call": lambda _: [stack.bare_model.time_call(messages)[1] for _ in range(turns)],
    }
    measurements = measure_alternately(samplers, size.rounds, SLICES)
    turn, two, call = measurements
    yield Result("turn_overhead", measurements, (ratio(turn, two, less=call, goal=GOAL), ratio(turn, two)))


def team_with_turns(turns: int) -> Team:
    """Return a team that ends after this number of turns, or one or two more."""
    sequential = {"type": "sequential", "rounds": turns // 2 + 1}
    return build_team("first", "second", prompt="short", collaboration_model=sequential)


def last_messages(team: Team, task: Task) -> Sequence[object]:
    """Return the messages that the last turns of the task sent to the model."""
    steps = task.history()
    agent = team.agents[0]
    return build_working_memory(agent, agent.prompt, PromptInputs(steps[0], tuple(steps[-team.tail_length :]))).messages


def time_hops(stack: BenchStack, turns: int) -> list[float]:
    """Return the seconds from one plain `turn` task to the next, with one `advance` task in between."""
    chain = new_name("chain")
    with plain_celery.create_plain_app(stack.settings.broker) as app:
        plain_celery.send(app, plain_celery.ADVANCE, chain, turns)
    answer = stack.redis.blpop([chain], timeout=60)
    assert answer, "the plain hops have not ended"
    times = json.loads(answer[1])
    return [after - before for before, after in pairwise(times)]
