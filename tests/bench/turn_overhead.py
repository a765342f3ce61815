"""turn_overhead: a turn of a long task, against two plain Celery hops on the same broker.

A turn is a message, a model call, and the rest of Roboco's work. Its overhead is the turn less a call by a plain reader
of the stream, since Roboco does not make the openai package's typed chunks either. The baselines are two messages
between plain Celery tasks. The lean ones run in one worker with threads, without events: the least that Celery needs.
The others have events, or Roboco's two pools, of which the coordinator's is prefork with late acknowledgement.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from roboco import Task, Team
from roboco.domain.prompt.working_memory import PromptInputs, build_working_memory
from tests.bench.harness.bench_stack import BenchStack, Size, build_team, new_name
from tests.bench.harness.results import Result, Sampler, measure_alternately, ratio, turn_times
from tests.bench.processes import plain_celery, plain_cpu

TURNS, SLICES = 50, 3
GOAL = 1.5
BASELINES = ("lean_silent", "lean")
"""The workers of `plain_cpu`, the least one first."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure a turn, the model call and the hops of each kind alternately."""
    turns = size.of(TURNS, 10)
    team = team_with_turns(turns)
    messages = last_messages(team, stack.run_team(team))
    stack.ensure_workers(plain_celery.POOLS, "tests.bench.processes.plain_celery")
    stack.ensure_workers(BASELINES, "tests.bench.processes.plain_cpu")
    samplers: dict[str, Sampler] = {
        "turn": lambda _: turn_times(stack.run_team(team).history()),
        "model call": lambda _: [stack.bare_model.time_plain_call(messages) for _ in range(turns)],
        "two hops in Roboco's pools": lambda _: time_hops(stack, turns),
    }
    samplers |= {
        f"two hops: {plain_cpu.POOLS[pool]}": partial(time_plain_hops, stack, pool, turns) for pool in BASELINES
    }
    measurements = turn, call, in_pools, least, lean = measure_alternately(samplers, size.rounds, SLICES)
    figures = [ratio(turn, least, less=call, goal=GOAL)]
    figures += [ratio(turn, baseline, less=call) for baseline in (lean, in_pools)]
    yield Result("turn_overhead", measurements, (*figures, ratio(turn, in_pools)))


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


def time_plain_hops(stack: BenchStack, pool: str, turns: int, _: int) -> list[float]:
    """Return the seconds of two plain tasks that send each other, in a chain of twice as many as there are turns."""
    chain = new_name("chain")
    beginning = plain_cpu.start(stack.settings.broker, pool, [chain], 2 * turns)
    answer = stack.redis.blpop([chain], timeout=60)
    assert answer, f"the hops of {pool} have not ended"
    return [(float(answer[1]) - beginning) / turns]
