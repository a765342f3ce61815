"""Rounds: each peer in turn, alone, on servers of its own: latency, throughput and CPU of the errand."""

import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.error import URLError

from roboco.adapters.local.process import free_port, start_server, wait_ready
from tests.bench.harness.bench_stack import MODEL_MODULE, Size, new_name
from tests.bench.harness.results import Measurement, Result, ratio
from tests.bench.peers.cpu import cpu_seconds
from tests.bench.peers.errand import AGENTS
from tests.bench.peers.peer import Peer
from tests.support.stack import ROOT

TOKENS = 20
"""What each agent says, without a pause."""
PROMPTS = (f"stream {TOKENS} 0",) * len(AGENTS)
SINGLE_TASKS, PARALLEL_TASKS, WARM_UP_TASKS = 20, 200, 20
"""Tasks one after another, all at once, and before anything is measured."""
SUBMITTERS = 4


@dataclass(frozen=True)
class PeerCosts:
    """What one peer has shown when it was its turn: seconds for each task alone, for one of many, and of CPU."""

    alone: tuple[float, ...]
    share: float
    cpu: float


def measure(peers: Sequence[type[Peer]], size: Size) -> Iterator[Result]:
    """The three measures, Roboco's against each other one's."""
    turns: dict[str, list[PeerCosts]] = {peer.name: [] for peer in peers}
    with tempfile.TemporaryDirectory(prefix="roboco-peers-") as folder, model(Path(folder)) as url:
        for number in range(size.rounds):
            for peer in peers:
                with peer(Path(folder) / f"{peer.__name__}-{number}", url) as running_peer:
                    turns[peer.name].append(measure_peer(running_peer, size))
    alone = [Measurement(name, tuple(one.alone for one in own)) for name, own in turns.items()]
    share = [Measurement(name, tuple((one.share,) for one in own)) for name, own in turns.items()]
    cpu = [Measurement(name, tuple((one.cpu,) for one in own)) for name, own in turns.items()]
    yield _compare("one task, from submit to its result", alone)
    many = size.of(PARALLEL_TASKS, 4)
    rates = ", ".join(f"{name} {1 / median(one.share for one in own):.1f}" for name, own in turns.items())
    yield _compare(f"{many} tasks at once, time for each", share, f"tasks a second: {rates}")
    yield _compare(f"{many} tasks at once, CPU for each", cpu, "CPU of workers and servers, without model and caller")


def measure_peer(peer: Peer, size: Size) -> PeerCosts:
    """Measure the peer, which runs, once."""
    _time_many(peer, size.of(WARM_UP_TASKS, 2))
    alone = tuple(_time_one(peer) for _ in range(size.of(SINGLE_TASKS, 2)))
    tasks = size.of(PARALLEL_TASKS, 4)
    before = cpu_seconds(peer.pids)
    took = _time_many(peer, tasks)
    return PeerCosts(alone, took / tasks, (cpu_seconds(peer.pids) - before) / tasks)


@contextmanager
def model(folder: Path) -> Iterator[str]:
    """The base URL of the model, a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", MODEL_MODULE, "--port", str(port)]
    url = f"http://127.0.0.1:{port}/v1"
    server = start_server(MODEL_MODULE, command, log=folder / "model.log", cwd=ROOT)
    try:
        wait_ready(server, lambda: _answers(f"{url}/models"), 60)
        yield url
    finally:
        server.stop()


def _time_one(peer: Peer) -> float:
    """Seconds of one task."""
    name = new_name("task")
    began = time.perf_counter()
    peer.submit(name, PROMPTS)
    peer.result(name)
    return time.perf_counter() - began


def _time_many(peer: Peer, tasks: int) -> float:
    """Seconds until so many tasks, handed in at once, have all ended; each has said all that it should."""
    names = [new_name("task") for _ in range(tasks)]
    began = time.perf_counter()
    with ThreadPoolExecutor(SUBMITTERS) as submitters:
        list(submitters.map(lambda name: peer.submit(name, PROMPTS), names))
    texts = [peer.result(name) for name in names]
    took = time.perf_counter() - began
    assert all(len(text.split()) == TOKENS for text in texts), f"{peer.name} has lost text"
    return took


def _compare(bench: str, measurements: Sequence[Measurement], *notes: str) -> Result:
    first, *others = measurements
    return Result(bench, tuple(measurements), tuple(ratio(first, other) for other in others), notes)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except URLError:
        return False
