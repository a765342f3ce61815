"""The stack of the benches: Valkey, Roboco's three pools as in production, and the model, in separate processes."""

import sys
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError

from roboco import Orchestrator, Settings, Task, Team, parse_team
from roboco.local.process import Server, free_port, start_server, wait_ready
from roboco.local.valkey import start_valkey
from roboco.redis.client import connect
from tests.bench.harness.bare_model import BareModel
from tests.bench.harness.process_stats import ProcessMeter
from tests.support.stack import ROOT, Stack

MODEL_MODULE = "tests.bench.processes.model"
TASK_TIMEOUT = 600.0
"""Seconds within which a task of a bench ends."""


@dataclass(frozen=True)
class Size:
    """The extent of a measurement: the number of rounds, and the fraction of the full size in each round."""

    rounds: int = 5
    fraction: float = 1.0

    def of(self, full: int, minimum: int = 1) -> int:
        """Return this fraction of the full number, but at least the minimum."""
        return max(minimum, round(full * self.fraction))


class BenchStack(Stack):
    """The stack of the tests, with default settings, workers as in a deployment, and a model in its own process.

    `model_process`, `valkey` and `workers` are the processes that a bench can measure. `shared` holds objects that
    several benches use.
    """

    forks = False

    @contextmanager
    def running_workers(self, pools: Sequence[str], modules: str | None = None) -> Iterator[None]:
        """Start workers, wait until they consume, and stop them at the end of the block."""
        servers = [self.start(pool, modules) for pool in pools]
        try:
            for pool in pools:
                self.wait_ready(pool)
            yield
        finally:
            for server in servers:
                server.process.terminate()
            for server in servers:
                server.stop()

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._exits.close()
            raise
        return self

    def _set_up(self) -> None:
        self.valkey = start_valkey(self.folder / "valkey")
        self._exits.callback(lambda: self.valkey.stop())
        self._agents_threads = 0
        self.shared: dict[str, Any] = {}
        self.model_process = self._start_model()
        self._exits.callback(self.model_process.stop)
        own: dict[str, Any] = {
            "redis_url": self.valkey.url,
            "workspace": f"file://{self.folder}/workspace",
        }
        self.settings = Settings.model_validate(own | self._changes)
        self.redis = connect(self.settings.redis_url)
        self._exits.callback(self.redis.close)
        self._exits.enter_context(self.running_workers(self._pools))
        self.orchestrator = Orchestrator(self.settings)
        self._exits.callback(self.orchestrator.close)
        self.bare_model = BareModel(self.model.base_url)
        self._exits.callback(self.bare_model.close)

    def ensure_workers(self, pools: Sequence[str], modules: str | None = None) -> None:
        """Start workers of these pools that do not run yet, until the stack stops."""
        self._exits.enter_context(self.running_workers([pool for pool in pools if pool not in self.workers], modules))

    def replace_worker(self, pool: str, modules: str | None = None, **environment: str) -> ProcessMeter:
        """Replace the pool's worker by a new process, and return its meter."""
        self.workers[pool].stop()
        self._exits.callback(self.start(pool, modules, **environment).stop)
        self.wait_ready(pool)
        return ProcessMeter(self.workers[pool].pid)

    def agents_with_threads(self, threads: int) -> ProcessMeter:
        """Return the meter of the agents process, which can run this number of turns at once."""
        if self._agents_threads != threads:
            self._agents_threads = threads
            return self.replace_worker("agents", ROBOCO_AGENTS_CONCURRENCY=str(threads))
        return ProcessMeter(self.workers["agents"].pid)

    def start_process(self, module: str, **options: object) -> ProcessMeter:
        """Start `python -m MODULE --option value ...` until the stack stops, and return its meter."""
        return ProcessMeter(self._exits.enter_context(self.running_process(module, **options)).pid)

    @contextmanager
    def running_process(self, module: str, **options: object) -> Iterator[Server]:
        """Start `python -m MODULE --option value ...`, and stop it at the end of the block."""
        server = self._start_module(module, **options)
        try:
            yield server
        finally:
            server.stop()

    @property
    def model_log(self) -> Path:
        """The file to which the model writes the events of named requests."""
        return self.folder / f"{MODEL_MODULE}.log"

    def run_team(self, team: Team, prompt: str = "Go.") -> Task:
        """Run a task of the team to its end, and return the task."""
        task = self.orchestrator.run(team, prompt)
        result = task.result(TASK_TIMEOUT)
        assert result.status == "completed", result
        return task

    def _start_model(self) -> Server:
        port = free_port()
        self.model.base_url = f"http://127.0.0.1:{port}/v1"
        server = self._start_module(MODEL_MODULE, port=port)
        wait_ready(server, lambda: _answers(f"{self.model.base_url}/models"), 60)
        return server

    def _start_module(self, module: str, **options: object) -> Server:
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, "-m", module, *arguments]
        return start_server(module, command, log=self.folder / f"{module}.log", cwd=ROOT)


def build_team(*agents: str, prompt: str = "", **more: Any) -> Team:
    """Return a team of these agents, which all have this prompt."""
    members = [{"name": name, "prompt": prompt} for name in agents]
    return parse_team({"name": "bench", "agents": members, "limits": {"max_steps": 100_000}} | more)


def new_name(kind: str) -> str:
    """Return a name of this kind that is not in use."""
    return f"{kind}-{uuid.uuid4().hex}"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except URLError:
        return False
