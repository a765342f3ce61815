"""The latency, throughput and CPU of the errand with each peer, one peer at a time, on separate servers."""

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

from roboco.local.process import free_port, start_server, wait_ready
from tests.bench.harness.bench_stack import MODEL_MODULE, Size, new_name
from tests.bench.harness.process_stats import cpu_with_children
from tests.bench.harness.results import Measurement, Result, ratio
from tests.bench.peers.errand import AGENTS
from tests.bench.peers.peer import Peer
from tests.support.stack import ROOT

TOKENS = 20
"""Tokens of each agent, streamed without a pause."""
PROMPTS = (f"stream {TOKENS} 0",) * len(AGENTS)
SINGLE_TASKS, PARALLEL_TASKS, WARM_UP_TASKS = 20, 200, 20
"""Numbers of tasks: one after another, all at once, and before the measurement."""
SUBMITTERS = 4


@dataclass(frozen=True)
class PeerCosts:
    """The costs of the errand with one peer in one round."""

    alone: tuple[float, ...]
    """Seconds of each task that runs alone."""
    share: float
    """Seconds for all parallel tasks, divided by their number."""
    cpu: float
    """CPU seconds of each parallel task."""


def measure(peers: Sequence[type[Peer]], size: Size) -> Iterator[Result]:
    """Measure the peers alternately, and compare Roboco with each of the others."""
    costs: dict[str, list[PeerCosts]] = {peer.name: [] for peer in peers}
    with tempfile.TemporaryDirectory(prefix="roboco-peers-") as folder, model(Path(folder)) as url:
        for number in range(size.rounds):
            for peer in peers:
                with peer(Path(folder) / f"{peer.__name__}-{number}", url) as running_peer:
                    costs[peer.name].append(measure_peer(running_peer, size))
    alone = [Measurement(name, tuple(one.alone for one in own)) for name, own in costs.items()]
    share = [Measurement(name, tuple((one.share,) for one in own)) for name, own in costs.items()]
    cpu = [Measurement(name, tuple((one.cpu,) for one in own)) for name, own in costs.items()]
    yield _compare("one task, from submit to its result", alone)
    many = size.of(PARALLEL_TASKS, 4)
    rates = ", ".join(f"{name} {1 / median(one.share for one in own):.1f}" for name, own in costs.items())
    yield _compare(f"{many} tasks at once, time for each", share, f"tasks a second: {rates}")
    yield _compare(f"{many} tasks at once, CPU for each", cpu, "CPU of workers and servers, without model and caller")


def measure_peer(peer: Peer, size: Size) -> PeerCosts:
    """Measure the running peer once."""
    _time_many(peer, size.of(WARM_UP_TASKS, 2))
    alone = tuple(_time_one(peer) for _ in range(size.of(SINGLE_TASKS, 2)))
    tasks = size.of(PARALLEL_TASKS, 4)
    before = sum(map(cpu_with_children, peer.pids))
    took = _time_many(peer, tasks)
    return PeerCosts(alone, took / tasks, (sum(map(cpu_with_children, peer.pids)) - before) / tasks)


@contextmanager
def model(folder: Path) -> Iterator[str]:
    """Start the model server as a separate process, and yield its base URL."""
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
    """Run one task, and return its seconds."""
    name = new_name("task")
    began = time.perf_counter()
    peer.submit(name, PROMPTS)
    peer.result(name)
    return time.perf_counter() - began


def _time_many(peer: Peer, tasks: int) -> float:
    """Submit this number of tasks at once, and return the seconds until all have ended with their full texts."""
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
