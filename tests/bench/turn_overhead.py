"""turn_overhead: a turn of a long task, against two plain Celery hops on the same broker.

A turn is a message, a model call, and the rest of Roboco's work. Its overhead is the turn less the bare model call. The
limits are two messages between plain Celery tasks. The lean ones run in one worker with threads, without events: the
least that Celery needs. Then the same with events, Celery's own settings, and Roboco's two pools, of which the
coordinator's is prefork with late acknowledgement.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from roboco import Task, Team
from roboco.domain.prompt.working_memory import PromptInputs, build_working_memory
from tests.bench import plain, plain_cpu
from tests.bench.figures import Measure, Result, in_turn, ratio, turn_times
from tests.bench.stage import Size, Stage, fresh, team_of

TURNS, SLICES = 50, 3
GOAL = 1.0
LIMITS = {
    "lean_threads_silent": "lean, no events",
    "lean_threads": "lean, events",
    "stock_threads": "Celery's settings, threads, events",
    "stock_prefork": "Celery's settings, prefork, events",
    "stock_prefork_silent": "Celery's settings, prefork, no events",
}
"""The workers of `plain_cpu` that are limits, the lean one first."""


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The time of a turn, of two hops, and of the model call, by turns."""
    turns = size.of(TURNS, 10)
    team = team_of_turns(turns)
    messages = messages_of(team, stage.finished(team))
    stage.keep(plain.POOLS, "tests.bench.plain")
    stage.keep(list(LIMITS), "tests.bench.plain_cpu")
    measures: dict[str, Measure] = {
        "turn": lambda _: turn_times(stage.finished(team).history()),
        "model call": lambda _: [stage.bare.call(messages)[1] for _ in range(turns)],
        "two hops in Roboco's pools": lambda _: hops(stage, turns),
    }
    measures |= {f"two hops: {name}": partial(chain_of_hops, stage, pool, turns) for pool, name in LIMITS.items()}
    lanes = in_turn(measures, size.rounds, SLICES)
    turn, call, in_pools, lean, *others = lanes
    figures = [ratio(turn, lean, less=call, goal=GOAL)]
    figures += [ratio(turn, limit, less=call) for limit in (*others, in_pools)]
    yield Result("turn_overhead", lanes, (*figures, ratio(turn, in_pools)))


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
    with plain.application_on(stage.settings.broker) as app:
        plain.send(app, plain.ADVANCE, chain, turns)
    answer = stage.redis.blpop([chain], timeout=60)
    assert answer, "the plain hops have not ended"
    times = json.loads(answer[1])
    return [after - before for before, after in pairwise(times)]


def chain_of_hops(stage: Stage, pool: str, turns: int, _: int) -> list[float]:
    """Seconds for two tasks that send each other, of a chain of twice as many as there are turns."""
    chain = fresh("chain")
    began = plain_cpu.start(stage.settings.broker, pool, [chain], 2 * turns)
    answer = stage.redis.blpop([chain], timeout=60)
    assert answer, f"the hops of {pool} have not ended"
    return [(float(answer[1]) - began) / turns]
