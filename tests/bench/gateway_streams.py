"""gateway_streams: 2,000 clients follow 200 live tasks through one gateway process, ten clients a task.

The baseline is the plainest stream of Starlette: one subscriber of redis.asyncio passes each message on to queues. Both
servers and their clients run all the time, and their tasks publish alternately. A direct follower of each task of the
gateway shows which part of the lag is the gateway's. The memory of a silent stream is the growth of the server while
its clients connect.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from roboco.local.process import free_port, wait_ready
from tests.bench.followers import CHUNKS, TASKS, TIMEOUT, FollowerGroup
from tests.bench.harness.bench_stack import BenchStack, Size, accepts
from tests.bench.harness.process_stats import ProcessMeter
from tests.bench.harness.results import Figure, Goal, Result, Sampler, measure_alternately, ratio
from tests.support.stack import until

STREAMS = 2_000
KB_GOAL, CPU_GOAL, LAG_GOAL = Goal(30), Goal(2), Goal(5)


class StreamGroup(FollowerGroup):
    """Tasks that only publish chunks, a server of their streams, and its clients."""

    def __init__(self, stack: BenchStack, tasks: int, streams: int, chunks: int, plain: bool) -> None:
        super().__init__(stack, tasks, streams, chunks)
        self._plain = plain
        self.cpu: list[float] = []
        self.kb_per_stream = 0.0

    @contextmanager
    def listening_process(self) -> Iterator[None]:
        """Run the server and its clients until the end of the block."""
        self.publish_first()
        port = free_port()
        named = {"name": self.name, "tasks": len(self.tasks)}
        where = {"url": self.stack.settings.redis_url, "workspace": self.stack.settings.workspace}
        server_module, clients_module = "tests.bench.processes.stream_server", "tests.bench.processes.stream_clients"
        with ExitStack() as running:
            server = running.enter_context(
                self.stack.running_process(server_module, port=port, plain=int(self._plain), **where, **named)
            )
            wait_ready(server, lambda: accepts(port), 60)
            self._meter = ProcessMeter(server.pid)
            warm = f"{self.log}.warm"
            clients = {"port": port, "chunks": self.chunks, **named}
            running.enter_context(self.stack.running_process(clients_module, output=warm, streams=20, **clients))
            time.sleep(2)  # the first streams also load modules and connect to Redis
            before = self._meter.memory_mb
            running.enter_context(
                self.stack.running_process(clients_module, output=self.log, streams=self.followers, **clients)
            )
            until(lambda: self.read_rounds() == 1, TIMEOUT, "all streams are open")
            time.sleep(2)
            self.kb_per_stream = (self._meter.memory_mb - before) * 1000 / self.followers
            yield

    def lags(self, number: int) -> list[float]:
        """Publish some chunks of each task. Return the seconds from publishing to each receipt."""
        self._meter.restart()
        lags = super().lags(number)
        self.cpu.append(self._meter.cpu / len(lags))
        return lags


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the gateway and the plain server alternately."""
    tasks, chunks, streams = size.of(TASKS, 4), size.of(CHUNKS, 5), size.of(STREAMS, 40)
    gateway = StreamGroup(stack, tasks, streams, chunks, plain=False)
    plain = StreamGroup(stack, tasks, streams, chunks, plain=True)
    direct = FollowerGroup(stack, tasks, tasks, chunks)
    with gateway.listening_process(), plain.listening_process(), direct.listening_process():
        samplers: dict[str, Sampler] = {
            "a client of the gateway": gateway.lags,
            "a client of the plain stream": plain.lags,
            "a direct follower": direct.lags,
        }
        measurements = measure_alternately(samplers, size.rounds)
    cpu = tuple(own / base for own, base in zip(gateway.cpu[1:], plain.cpu[1:], strict=True))
    served, _, followed = measurements
    later = tuple((own - base) * 1000 for own, base in zip(served.medians, followed.medians, strict=True))
    figures = (
        Figure("CPU per token / plain", cpu, goal=CPU_GOAL),
        Figure("memory of a silent stream", (gateway.kb_per_stream,), "KB", KB_GOAL),
        Figure("text after a direct follower", later, "ms", LAG_GOAL),
        ratio(*measurements[:2]),
    )
    notes = (
        f"{streams} streams of {tasks} tasks; memory of a plain stream: {plain.kb_per_stream:.1f} KB",
        f"CPU of a token to one client: gateway {median(gateway.cpu[1:]) * 1e6:.0f} µs, "
        f"plain {median(plain.cpu[1:]) * 1e6:.0f} µs",
    )
    yield Result("gateway_streams", measurements, figures, notes)
