"""token_cpu: the CPU time of a token in the process that relays it, from the model's socket to PUBLISH.

The baseline is a bare process that reads the same lines, parses them as JSON and publishes each. The bench also
measures the loop of the openai package, with a thread for each stream and a PUBLISH for each chunk. There are 40
streams of 20 tokens a second each.
"""

from collections.abc import Iterator

from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.parallel_streams import scale_chunks, shared_relays
from tests.bench.harness.results import Result, Sampler, measure_alternately, ratio

STREAMS, CHUNKS = 40, 60
GOAL = 3.0


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure all three relays alternately."""
    streams, chunks = size.of(STREAMS), scale_chunks(size, CHUNKS)
    relays = shared_relays(stack)
    samplers: dict[str, Sampler] = {
        "CPU of a token": lambda _: [relays.relay_by_roboco(streams, chunks).cpu["relay"]],
        "raw parsing and PUBLISH": lambda _: [relays.relay_by_loop("raw", streams, chunks).cpu["relay"]],
        "the openai package's loop": lambda _: [relays.relay_by_loop("openai", streams, chunks).cpu["relay"]],
    }
    measurements = measure_alternately(samplers, size.rounds)
    ours, raw, package = measurements
    yield Result("token_cpu", measurements, (ratio(ours, raw, goal=GOAL), ratio(ours, package)))
