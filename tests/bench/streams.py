"""streams: how late chunks are, model to follower, when one agents process relays many streams of 20 tokens a second.

The limit is the openai package's own loop in a process of its own: a thread for each stream, and a PUBLISH for each
chunk. Chunks are written beforehand by the model and heard by a bare socket, so that neither is what is measured. The
first of each stream are left out, and the last: all streams begin and end together.
"""

from collections.abc import Iterator, Mapping

from tests.bench.harness.results import Figure, Goal, Lane, Result, Series, milliseconds, percentile
from tests.bench.harness.parallel_streams import Spoken, chunks_of, speakers
from tests.bench.harness.bench_stack import Size, Stage

STREAMS = (25, 50, 100, 200, 400)
AT = 200
"""Streams for which the goal is."""
CHUNKS = 40
LATE = 250
"""Milliseconds that a chunk may be late, 99 of 100 times."""
TWICE = Goal(2, at_least=True)
LOOP = "the openai package's loop"

Found = Mapping[int, tuple[Spoken, Spoken]]
"""By the number of streams: Roboco's, and the loop's."""


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """Both with the number of streams of the goal by turns, and once with each of the other numbers."""
    at, chunks = size.of(AT), chunks_of(size, CHUNKS)
    others = sorted({size.of(streams) for streams in STREAMS} - {at})
    relay = speakers(stage)

    def both(streams: int) -> tuple[Spoken, Spoken]:
        return relay.roboco(streams, chunks), relay.loop("openai", streams, chunks)

    rounds = [both(at) for _ in range(size.rounds + 1)][1:]
    found = {streams: both(streams) for streams in others} | {at: rounds[-1]}
    lanes = (
        Lane("a chunk's way by Roboco", tuple(ours.lags for ours, _ in rounds)),
        Lane(f"by {LOOP}", tuple(loop.lags for _, loop in rounds)),
    )
    figures = (
        milliseconds(f"p99 of {at} streams", [_late(ours) for ours, _ in rounds], LATE),
        Figure(f"streams with p99 under {LATE} ms / the loop's", (_held(found, 0) / _held(found, 1),), "times", TWICE),
        Figure("tokens a second / the loop's", tuple(ours.rate / loop.rate for ours, loop in rounds)),
    )
    yield Result(f"streams, {at}", lanes, figures, tuple(_notes(found)), _series(found))


def _late(spoken: Spoken, percent: int = 99) -> float:
    return percentile(sorted(spoken.lags), percent)


def _held(found: Found, which: int) -> int:
    """The most streams whose chunks come in time."""
    return max((streams for streams, both in found.items() if _late(both[which]) * 1000 < LATE), default=1)


def _notes(found: Found) -> Iterator[str]:
    for streams, (ours, loop) in sorted(found.items()):
        for name, spoken in (("Roboco", ours), (LOOP, loop)):
            last = percentile(sorted(spoken.ends), 50) * 1000
            late = f"p50 {_late(spoken, 50) * 1000:.1f} ms, p99 {_late(spoken) * 1000:.0f} ms, the last {last:.0f} ms"
            yield f"{streams} streams by {name}: {late}, {spoken.rate:.0f} tokens a second; of a CPU: {spoken.told()}"


def _series(found: Found) -> tuple[Series, ...]:
    lines = (("Roboco, p50", 0, 50), ("Roboco, p99", 0, 99), (f"{LOOP}, p50", 1, 50), (f"{LOOP}, p99", 1, 99))
    return tuple(
        Series(
            "latency_over_streams",
            name,
            tuple((float(streams), _late(both[which], percent) * 1000) for streams, both in sorted(found.items())),
        )
        for name, which, percent in lines
    )
