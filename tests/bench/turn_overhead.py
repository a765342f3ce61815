"""turn_overhead: a turn of a long task, against two plain Celery hops on the same broker and in the same pools.

A turn is two hops, a model call, and what Roboco does; the bare model call stands beside it, so that what is left of a
turn without it can be compared with the hops.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from roboco import Task, Team
from roboco.domain.prompt.working_memory import PromptInputs, build_working_memory
from tests.bench.processes import plain_celery
from tests.bench.harness.results import Measure, Result, in_turn, ratio, turn_times
from tests.bench.harness.bench_stack import Size, Stage, fresh, team_of

TURNS, SLICES = 50, 3
GOAL = 1.5


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The time of a turn, of two hops, and of the model call, by turns."""
    turns = size.of(TURNS, 10)
    team = team_of_turns(turns)
    messages = messages_of(team, stage.finished(team))
    stage.keep(plain_celery.POOLS, "tests.bench.processes.plain_celery")
    measures: dict[str, Measure] = {
        "turn": lambda _: turn_times(stage.finished(team).history()),
        "two hops": lambda _: hops(stage, turns),
        "model call": lambda _: [stage.bare.call(messages)[1] for _ in range(turns)],
    }
    lanes = in_turn(measures, size.rounds, SLICES)
    turn, two, call = lanes
    yield Result("turn_overhead", lanes, (ratio(turn, two, less=call, goal=GOAL), ratio(turn, two)))


def team_of_turns(turns: int) -> Team:
    """A team that ends after so many turns, or one or two more."""
    sequential = {"type": "sequential", "rounds": turns // 2 + 1}
    return team_of("first", "second", prompt="short", collaboration_model=sequential)


def messages_of(team: Team, task: Task) -> Sequence[object]:
    """What the last turns of the task sent to the model."""
    steps = task.history()
    agent = team.agents[0]
    return build_working_memory(agent, agent.prompt, PromptInputs(steps[0], tuple(steps[-team.tail_length :]))).messages


def hops(stage: Stage, turns: int) -> list[float]:
    """Seconds from one plain `turn` to the next, with one `advance` in between."""
    chain = fresh("chain")
    with plain_celery.application_on(stage.settings.broker) as app:
        plain_celery.send(app, plain_celery.ADVANCE, chain, turns)
    answer = stage.redis.blpop([chain], timeout=60)
    assert answer, "the plain hops have not ended"
    times = json.loads(answer[1])
    return [after - before for before, after in pairwise(times)]
