"""turn_overhead_s3: turn_overhead with the workspace on the S3 server.

The limit is two plain Celery hops and one conditional PUT of a step's size on the same server, each measured alone. The
workers, their Valkey and the S3 server are of this bench alone; the plain Celery tasks have a Valkey like it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any

from roboco.adapters.local.seaweed import S3Server, start_seaweed
from roboco.adapters.workspace.s3 import connect_s3
from tests.bench import plain
from tests.bench.figures import Measure, Result, in_turn, ratio, turn_times
from tests.bench.stage import Size, Stage, fresh
from tests.bench.turn_overhead import hops, messages_of, team_of_turns
from tests.support.stack import s3_environment

TURNS, SLICES = 30, 3
GOAL = 1.5


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The time of a turn, of two hops, of a PUT, and of the model call, by turns."""
    turns = size.of(TURNS, 4)
    team = team_of_turns(turns)
    stage.keep(plain.POOLS, "tests.bench.plain")
    with _own(stage) as (own, s3):
        task = own.finished(team)
        messages, step = messages_of(team, task), task.history()[-1].line().encode()
        measures: dict[str, Measure] = {
            "turn": lambda _: turn_times(own.finished(team).history()),
            "two hops": lambda _: hops(stage, turns),
            "a PUT": lambda _: _puts(s3, step, turns),
            "model call": lambda _: [own.bare.call(messages)[1] for _ in range(turns)],
        }
        lanes = in_turn(measures, size.rounds, SLICES)
    turn, two, put, call = lanes
    yield Result("turn_overhead_s3", lanes, (ratio(turn, two, put, less=call, goal=GOAL), ratio(turn, two, put)))


@contextmanager
def _own(stage: Stage) -> Iterator[tuple[Stage, S3Server]]:
    """A stage on an S3 server."""
    folder = stage.folder / fresh("s3")
    folder.mkdir()
    with ExitStack() as exits:
        s3 = start_seaweed(folder / "seaweed")
        exits.callback(s3.stop)
        exits.enter_context(s3_environment(s3))
        own = exits.enter_context(Stage(folder, pools=("coordinator", "agents"), s3=s3))
        yield own, s3


def _puts(s3: S3Server, step: bytes, times: int) -> list[float]:
    """Seconds of each conditional PUT of the step, as the workspace makes it."""
    client: Any = connect_s3(s3.endpoint_url)
    found = []
    for number in range(times + 1):
        began = perf_counter()
        client.put_object(Bucket=s3.bucket, Key=fresh("put"), Body=step, IfNoneMatch="*")
        found += [perf_counter() - began] if number else []  # the first one makes the connection
    client.close()
    return found
