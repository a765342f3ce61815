"""turn_overhead_s3: the same as turn_overhead with the workspace on the S3 server.

The baseline is two plain Celery hops and one conditional PUT of a step's size on the same server, measured separately.
The workers, their Valkey and the S3 server serve this bench only. The plain Celery tasks use another Valkey.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any

from roboco.local.seaweed import S3Server, start_seaweed
from roboco.workspace.s3 import connect_s3
from tests.bench.harness.bench_stack import BenchStack, Size, new_name
from tests.bench.harness.results import Result, Sampler, measure_alternately, ratio, turn_times
from tests.bench.processes import plain_celery
from tests.bench.turn_overhead import last_messages, team_with_turns, time_hops
from tests.support.stack import s3_environment

TURNS, SLICES = 30, 3
GOAL = 1.5


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure a turn, two hops, a PUT, and the model call alternately."""
    turns = size.of(TURNS, 4)
    team = team_with_turns(turns)
    stack.ensure_workers(plain_celery.POOLS, "tests.bench.processes.plain_celery")
    with _s3_stack(stack) as (s3_stack, s3):
        task = s3_stack.run_team(team)
        messages, step = last_messages(team, task), task.history()[-1].line().encode()
        samplers: dict[str, Sampler] = {
            "turn": lambda _: turn_times(s3_stack.run_team(team).history()),
            "two hops": lambda _: time_hops(stack, turns),
            "a PUT": lambda _: _time_puts(s3, step, turns),
            "model call": lambda _: [s3_stack.bare_model.time_plain_call(messages) for _ in range(turns)],
        }
        measurements = measure_alternately(samplers, size.rounds, SLICES)
    turn, two, put, call = measurements
    yield Result("turn_overhead_s3", measurements, (ratio(turn, two, put, less=call, goal=GOAL), ratio(turn, two, put)))


@contextmanager
def _s3_stack(stack: BenchStack) -> Iterator[tuple[BenchStack, S3Server]]:
    """Yield a stack with an S3 server, and the server."""
    folder = stack.folder / new_name("s3")
    folder.mkdir()
    with ExitStack() as exits:
        s3 = start_seaweed(folder / "seaweed")
        exits.callback(s3.stop)
        exits.enter_context(s3_environment(s3))
        s3_stack = exits.enter_context(BenchStack(folder, pools=("coordinator", "agents"), s3=s3))
        yield s3_stack, s3


def _time_puts(s3: S3Server, step: bytes, times: int) -> list[float]:
    """Return the seconds of each conditional PUT of the step, as the workspace makes it."""
    client: Any = connect_s3(s3.endpoint_url)
    found = []
    for number in range(times + 1):
        began = perf_counter()
        client.put_object(Bucket=s3.bucket, Key=new_name("put"), Body=step, IfNoneMatch="*")
        found += [perf_counter() - began] if number else []  # the first request opens the connection
    client.close()
    return found
