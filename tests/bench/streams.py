"""streams: how late chunks are, model to follower, when one agents process relays many streams of 20 tokens a second.

The limit is the openai package's own loop in a process of its own: a thread for each stream, and a PUBLISH for each
chunk. Chunks are written beforehand by the model and heard by a bare socket, so that neither is what is measured. The
first of each stream are left out, and the last: all streams begin and end together.
"""

from collections.abc import Iterator, Mapping

from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.parallel_streams import StreamStats, scale_chunks, shared_relays
from tests.bench.harness.results import Figure, Goal, Measurement, Result, Series, milliseconds, percentile

STREAMS = (25, 50, 100, 200, 400)
GOAL_STREAMS = 200
"""Streams for which the goal is."""
CHUNKS = 40
MAX_LATENESS_MS = 250
"""Milliseconds that a chunk may be late, 99 of 100 times."""
STREAMS_GOAL = Goal(2, at_least=True)
LOOP_NAME = "the openai package's loop"

StatsByStreams = Mapping[int, tuple[StreamStats, StreamStats]]
"""By the number of streams: Roboco's, and the loop's."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Both with the number of streams of the goal by turns, and once with each of the other numbers."""
    at, chunks = size.of(GOAL_STREAMS), scale_chunks(size, CHUNKS)
    others = sorted({size.of(streams) for streams in STREAMS} - {at})
    relays = shared_relays(stack)

    def both(streams: int) -> tuple[StreamStats, StreamStats]:
        return relays.relay_by_roboco(streams, chunks), relays.relay_by_loop("openai", streams, chunks)

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
    yield Result(f"streams, {at}", measurements, figures, tuple(_notes(found)), _series(found))


def _lateness(stats: StreamStats, percent: int = 99) -> float:
    return percentile(sorted(stats.lags), percent)


def _sustained_streams(found: StatsByStreams, which: int) -> int:
    """The most streams whose chunks come in time."""
    return max(
        (streams for streams, both in found.items() if _lateness(both[which]) * 1000 < MAX_LATENESS_MS), default=1
    )


def _notes(found: StatsByStreams) -> Iterator[str]:
    for streams, (ours, loop) in sorted(found.items()):
        for name, stats in (("Roboco", ours), (LOOP_NAME, loop)):
            last = percentile(sorted(stats.ends), 50) * 1000
            late = f"p50 {_lateness(stats, 50) * 1000:.1f} ms, p99 {_lateness(stats) * 1000:.0f} ms, the last {last:.0f} ms"
            yield f"{streams} streams by {name}: {late}, {stats.rate:.0f} tokens a second; of a CPU: {stats.cpu_shares()}"


def _series(found: StatsByStreams) -> tuple[Series, ...]:
    lines = (("Roboco, p50", 0, 50), ("Roboco, p99", 0, 99), (f"{LOOP_NAME}, p50", 1, 50), (f"{LOOP_NAME}, p99", 1, 99))
    return tuple(
        Series(
            "latency_over_streams",
            name,
            tuple((float(streams), _lateness(both[which], percent) * 1000) for streams, both in sorted(found.items())),
        )
        for name, which, percent in lines
    )
