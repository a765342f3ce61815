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
from tests.bench.harness.results import Lane, Result, ratio
from tests.bench.peers.cpu import used
from tests.bench.peers.errand import AGENTS
from tests.bench.peers.peer import Peer
from tests.bench.harness.bench_stack import MODEL, Size, fresh
from tests.support.stack import ROOT

TOKENS = 20
"""What each agent says, without a pause."""
PROMPTS = (f"stream {TOKENS} 0",) * len(AGENTS)
ALONE, TOGETHER, WARM = 20, 200, 20
"""Tasks one after another, all at once, and before anything is measured."""
SUBMITTERS = 4


@dataclass(frozen=True)
class Turn:
    """What one peer has shown when it was its turn: seconds for each task alone, for one of many, and of CPU."""

    alone: tuple[float, ...]
    share: float
    cpu: float


def measure(peers: Sequence[type[Peer]], size: Size) -> Iterator[Result]:
    """The three measures, Roboco's against each other one's."""
    turns: dict[str, list[Turn]] = {peer.name: [] for peer in peers}
    with tempfile.TemporaryDirectory(prefix="roboco-peers-") as folder, model(Path(folder)) as url:
        for number in range(size.rounds):
            for peer in peers:
                with peer(Path(folder) / f"{peer.__name__}-{number}", url) as playing:
                    turns[peer.name].append(turn(playing, size))
    alone = [Lane(name, tuple(one.alone for one in own)) for name, own in turns.items()]
    share = [Lane(name, tuple((one.share,) for one in own)) for name, own in turns.items()]
    cpu = [Lane(name, tuple((one.cpu,) for one in own)) for name, own in turns.items()]
    yield _result("one task, from submit to its result", alone)
    many = size.of(TOGETHER, 4)
    rates = ", ".join(f"{name} {1 / median(one.share for one in own):.1f}" for name, own in turns.items())
    yield _result(f"{many} tasks at once, time for each", share, f"tasks a second: {rates}")
    yield _result(f"{many} tasks at once, CPU for each", cpu, "CPU of workers and servers, without model and caller")


def turn(peer: Peer, size: Size) -> Turn:
    """Measure the peer, which runs, once."""
    _together(peer, size.of(WARM, 2))
    alone = tuple(_alone(peer) for _ in range(size.of(ALONE, 2)))
    tasks = size.of(TOGETHER, 4)
    before = used(peer.pids)
    took = _together(peer, tasks)
    return Turn(alone, took / tasks, (used(peer.pids) - before) / tasks)


@contextmanager
def model(folder: Path) -> Iterator[str]:
    """The base URL of the model, a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", MODEL, "--port", str(port)]
    url = f"http://127.0.0.1:{port}/v1"
    server = start_server(MODEL, command, log=folder / "model.log", cwd=ROOT)
    try:
        wait_ready(server, lambda: _answers(f"{url}/models"), 60)
        yield url
    finally:
        server.stop()


def _alone(peer: Peer) -> float:
    """Seconds of one task."""
    name = fresh("task")
    began = time.perf_counter()
    peer.submit(name, PROMPTS)
    peer.result(name)
    return time.perf_counter() - began


def _together(peer: Peer, tasks: int) -> float:
    """Seconds until so many tasks, handed in at once, have all ended; each has said all that it should."""
    names = [fresh("task") for _ in range(tasks)]
    began = time.perf_counter()
    with ThreadPoolExecutor(SUBMITTERS) as submitters:
        list(submitters.map(lambda name: peer.submit(name, PROMPTS), names))
    texts = [peer.result(name) for name in names]
    took = time.perf_counter() - began
    assert all(len(text.split()) == TOKENS for text in texts), f"{peer.name} has lost text"
    return took


def _result(bench: str, lanes: Sequence[Lane], *notes: str) -> Result:
    first, *others = lanes
    return Result(bench, tuple(lanes), tuple(ratio(first, other) for other in others), notes)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except URLError:
        return False
