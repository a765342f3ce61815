"""token_cpu: the CPU that a token takes of the process that relays it, from the model's socket to PUBLISH.

The limit is a bare process that reads the same lines, parses them as JSON and publishes each; the openai package's own
loop, a thread for each stream and a PUBLISH for each chunk, stands beside it. 40 streams speak 20 tokens a second each.
"""

from collections.abc import Iterator

from tests.bench.harness.results import Measure, Result, in_turn, ratio
from tests.bench.harness.parallel_streams import chunks_of, speakers
from tests.bench.harness.bench_stack import Size, Stage

STREAMS, CHUNKS = 40, 60
GOAL = 3.0


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """All three by turns."""
    streams, chunks = size.of(STREAMS), chunks_of(size, CHUNKS)
    relay = speakers(stage)
    measures: dict[str, Measure] = {
        "CPU of a token": lambda _: [relay.roboco(streams, chunks).cpu["who relays"]],
        "raw parsing and PUBLISH": lambda _: [relay.loop("raw", streams, chunks).cpu["who relays"]],
        "the openai package's loop": lambda _: [relay.loop("openai", streams, chunks).cpu["who relays"]],
    }
    lanes = in_turn(measures, size.rounds)
    ours, raw, package = lanes
    yield Result("token_cpu", lanes, (ratio(ours, raw, goal=GOAL), ratio(ours, package)))
