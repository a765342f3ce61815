"""streams: the lag of chunks from model to follower, when one agents process relays many streams of 20 tokens a second.

The baseline is a separate process with the loop of the openai package: a thread for each stream, and a PUBLISH for each
chunk. The model prepares its chunks in advance and a bare socket receives them, so that neither affects the result. The
bench omits the first and the last chunks of each stream, because all streams begin and end together.
"""

from collections.abc import Iterator, Mapping

from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.parallel_streams import StreamStats, scale_chunks, shared_relays
from tests.bench.harness.results import Figure, Goal, Measurement, Result, milliseconds, percentile

STREAMS = (25, 50, 100, 200, 400)
GOAL_STREAMS = 200
"""Number of streams to which the goal applies."""
CHUNKS = 40
MAX_LATENESS_MS = 250
"""Maximum lag of 99 of 100 chunks."""
STREAMS_GOAL = Goal(2, at_least=True)
LOOP_NAME = "the openai package's loop"

StatsByStreams = Mapping[int, tuple[StreamStats, StreamStats]]
"""The statistics of Roboco and of the loop, by number of streams."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure both relays alternately with the goal's number of streams, and once with each other number."""
    at, chunks = size.of(GOAL_STREAMS), scale_chunks(size, CHUNKS)
    others = sorted({size.of(streams) for streams in STREAMS} - {at})
    relays = shared_relays(stack)

    def both(streams: int) -> tuple[StreamStats, StreamStats]:
        return relays.relay_by_roboco(streams, chunks), relays.relay_by_loop(streams, chunks)

    rounds = [both(at) for _ in range(size.rounds + 1)][1:]
    found = {streams: both(streams) for streams in others} | {at: rounds[-1]}
    measurements = (
        Measurement("a chunk's way by Roboco", tuple(ours.lags for ours, _ in rounds)),
        Measurement(f"by {LOOP_NAME}", tuple(loop.lags for _, loop in rounds)),
    )
    figures = (
        milliseconds(f"p99 of {at} streams", [_lateness(ours) for ours, _ in rounds], MAX_LATENESS_MS),
        Figure(
            f"streams with p99 under {MAX_LATENESS_MS} ms / the loop's",
            (_sustained_streams(found, 0) / _sustained_streams(found, 1),),
            "times",
            STREAMS_GOAL,
        ),
        Figure("tokens a second / the loop's", tuple(ours.rate / loop.rate for ours, loop in rounds)),
    )
    yield Result(f"streams, {at}", measurements, figures, tuple(_notes(found)))


def _lateness(stats: StreamStats, percent: int = 99) -> float:
    return percentile(sorted(stats.lags), percent)


def _sustained_streams(found: StatsByStreams, which: int) -> int:
    """Return the highest number of streams with a lag within the maximum."""
    return max(
        (streams for streams, both in found.items() if _lateness(both[which]) * 1000 < MAX_LATENESS_MS), default=1
    )


def _notes(found: StatsByStreams) -> Iterator[str]:
    for streams, (ours, loop) in sorted(found.items()):
        for name, stats in (("Roboco", ours), (LOOP_NAME, loop)):
            p50, p99 = (_lateness(stats, percent) * 1000 for percent in (50, 99))
            last = percentile(sorted(stats.ends), 50) * 1000
            lags = f"p50 {p50:.1f} ms, p99 {p99:.0f} ms, last chunks {last:.0f} ms"
            rates = f"{stats.rate:.0f} tokens a second; of a CPU: {stats.cpu_shares()}"
            yield f"{streams} streams by {name}: {lags}, {rates}"
