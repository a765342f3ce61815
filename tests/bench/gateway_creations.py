"""gateway_creations: 500 task creations a second, offered to one gateway process whether it keeps up or not.

The baseline is the Python client: 16 threads of this process, as many as the gateway has for submissions, submit as
fast as they can. Both use a second database of the same Redis, at which no worker listens: the messages of the tasks
wait there, so that the bench measures submissions alone. A creation counts from its time in the schedule. 429 and 503
are answers that refuse it in time; a request without an answer hangs, and fails the bench.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from roboco import Orchestrator, Settings
from roboco.local.process import Server, free_port, start_server, wait_ready
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, accepts, new_name
from tests.bench.harness.process_stats import ProcessMeter
from tests.bench.harness.results import Figure, Result, Sampler, measure_alternately
from tests.bench.processes.task_creator import BROKEN, HANGING
from tests.support.stack import ROOT, until

RATE = 500.0
SECONDS = 10
SUBMISSIONS = 1_000
THREADS = 16
TEAM = {"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]}
CREATED, REFUSED = 201, {429, 503}


class Creations:
    """Task creations through a gateway, and by the client. Each list has an element for each round."""

    def __init__(self, stack: BenchStack, size: Size) -> None:
        folder = stack.folder / new_name("creations")
        (folder / "teams").mkdir(parents=True)
        (folder / "teams" / "desk.json").write_text(json.dumps(TEAM))
        url = f"{stack.settings.redis_url.rpartition('/')[0]}/1"
        own = {"redis_url": url, "workspace": f"file://{folder}/workspace", "teams_dir": folder / "teams"}
        self.settings = Settings.model_validate(own)
        self.accepted: list[float] = []
        self.submitted: list[float] = []
        self.cpu: list[float] = []
        self.statuses = Counter[int]()
        self._stack = stack
        self._folder = folder
        self._seconds = size.of(SECONDS)
        self._submissions = size.of(SUBMISSIONS, THREADS)

    @contextmanager
    def gateway(self) -> Iterator[None]:
        """Run the gateway until the end of the block."""
        self._port = free_port()
        command = [sys.executable, "-m", "roboco.cli.main", "serve", "--port", str(self._port)]
        variables = self._stack.environment | self.settings.environment() | {"ROBOCO_GATEWAY_AUTHENTICATION": "false"}
        server: Server = start_server("gateway", command, env=variables, log=self._folder / "gateway.log", cwd=ROOT)
        try:
            wait_ready(server, lambda: accepts(self._port), 60)
            self._meter = ProcessMeter(server.pid)
            yield
        finally:
            server.stop()

    def offer(self, number: int) -> Sequence[float]:
        """Offer creations for some seconds. Return the seconds of each that is accepted."""
        output = self._folder / f"answers-{number}.json"
        options = {"port": self._port, "team": "desk", "rate": RATE, "seconds": self._seconds, "output": output}
        self._meter.restart()
        with self._stack.running_process("tests.bench.processes.task_creator", **options):
            until(output.exists, TASK_TIMEOUT, "all creations are answered")
        cpu, found = self._meter.cpu, json.loads(output.read_text())
        seconds = [took for status, took in found["answers"] if status == CREATED]
        statuses = Counter[int](status for status, _ in found["answers"])
        unexpected = set(statuses) - {CREATED} - REFUSED
        assert not unexpected, f"statuses {statuses}; {BROKEN} is a broken connection, {HANGING} one that hangs"
        if number:
            self.accepted.append(len(seconds) / found["seconds"])
            self.cpu.append(cpu / len(seconds))
            self.statuses += statuses
        return seconds

    def submit(self, number: int) -> Sequence[float]:
        """Submit tasks with the client, as fast as it can. Return the seconds of each."""
        with Orchestrator(self.settings) as orchestrator, ThreadPoolExecutor(THREADS) as threads:

            def run(_: int) -> float:
                began = time.perf_counter()
                orchestrator.run("desk", "Go.")
                return time.perf_counter() - began

            began = time.perf_counter()
            found = list(threads.map(run, range(self._submissions)))
            if number:
                self.submitted.append(len(found) / (time.perf_counter() - began))
        return found


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the gateway and the client alternately."""
    creations = Creations(stack, size)
    with creations.gateway():
        samplers: dict[str, Sampler] = {
            f"a creation through the gateway, {RATE:g}/s offered": creations.offer,
            f"a submission of the Python client, {THREADS} threads": creations.submit,
        }
        measurements = measure_alternately(samplers, size.rounds)
    pairs = zip(creations.accepted, creations.submitted, strict=True)
    figures = (
        Figure("accepted / submitted by the client, a second", tuple(own / base for own, base in pairs)),
        Figure("accepted", tuple(creations.accepted), "tasks/s"),
        Figure("submitted by the client", tuple(creations.submitted), "tasks/s"),
        Figure("CPU of the gateway for a creation", tuple(cpu * 1000 for cpu in creations.cpu), "ms"),
    )
    answers = ", ".join(f"{status}: {number}" for status, number in sorted(creations.statuses.items()))
    yield Result("gateway_creations", measurements, figures, (f"answers by status: {answers}; none hung or broke",))
