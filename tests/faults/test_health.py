"""Reports of `roboco.workers.healthcheck`, and so of `roboco health`, on real workers."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from roboco import Team
from roboco.broker.names import TOOLS_QUEUE
from roboco.cli.main import commands
from roboco.lab.servers.gate import Gate
from tests.support.servers.model_server import Reply
from tests.support.stack import ROOT, Stack, until

pytestmark = pytest.mark.workers

SPEAKER = Team.model_validate({"name": "speaker", "agents": [{"name": "speaker", "prompt": "Speak."}]})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A coordinator with its servers."""
    with Stack(tmp_path_factory.mktemp("health"), ["coordinator"], lease_seconds=40.0) as started:
        yield started


@contextmanager
def run_worker(stack: Stack, pool: str, **environment: str) -> Iterator[Path]:
    """Run a worker of the pool, and yield its health folder. Kill it at the end."""
    folder = stack.folder / f"health-{os.urandom(4).hex()}"
    server = stack.start(pool, "tests.support.impatient_workers", ROBOCO_HEALTH_DIR=str(folder), **environment)
    try:
        stack.wait_ready(pool)
        yield folder
    finally:
        stack.workers.pop(pool)
        with suppress(ProcessLookupError):  # it has ended already
            os.killpg(server.pid, signal.SIGKILL)
        server.process.wait()


@pytest.fixture(scope="module")
def gate(stack: Stack) -> Iterator[Gate]:
    """A proxy between the tools worker and its broker."""
    with Gate(stack.valkey.port) as gate:
        yield gate


@pytest.fixture(scope="module")
def tools(stack: Stack, gate: Gate) -> Iterator[Path]:
    """The health folder of an idle tools worker. Each test leaves it healthy."""
    url = f"redis://127.0.0.1:{gate.port}/0"
    with run_worker(stack, "tools", ROBOCO_BROKER_URL=url) as folder:
        yield folder


@pytest.fixture(scope="module")
def agents(stack: Stack) -> Iterator[Path]:
    """The health folder of an idle agents worker with two slots. Each test but the last leaves it healthy."""
    with run_worker(stack, "agents", ROBOCO_AGENTS_CONCURRENCY="2") as folder:
        yield folder


def run_health_check(pool: str, folder: Path) -> tuple[int, str]:
    """Return the exit code and output of the check, run as a container's health check."""
    command = [sys.executable, "-m", "roboco.workers.healthcheck", pool]
    ran = subprocess.run(command, env={"ROBOCO_HEALTH_DIR": str(folder)}, cwd=ROOT, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def wait_for_report(pool: str, folder: Path, code: int, words: str) -> None:
    """Wait until the check ends with this code and prints these words."""
    until(
        lambda: run_health_check(pool, folder)[0] == code and words in run_health_check(pool, folder)[1],
        20,
        lambda: f"{pool} reports {words!r}: {run_health_check(pool, folder)}",
    )


def assert_stays_healthy(pool: str, folder: Path, beats: int = 15) -> None:
    """Assert that the worker is healthy at each of the next heartbeats."""
    note = folder / f"{pool}.json"
    for _ in range(beats):
        before = note.read_text()
        until(lambda before=before: note.read_text() != before, 60, "the worker writes its heartbeat")  # type: ignore[misc]
        assert run_health_check(pool, folder) == (0, f"{pool} is healthy\n")


def test_a_stopped_process_is_unhealthy(stack: Stack, agents: Path) -> None:
    wait_for_report("agents", agents, 0, "is healthy")
    os.kill(stack.workers["agents"].pid, signal.SIGSTOP)
    wait_for_report("agents", agents, 1, "its main loop last ran")
    os.kill(stack.workers["agents"].pid, signal.SIGCONT)
    wait_for_report("agents", agents, 0, "is healthy")


def test_a_worker_that_does_not_consume_its_queue_is_unhealthy(stack: Stack, tools: Path) -> None:
    """An operator can cause this in Flower."""
    wait_for_report("tools", tools, 0, "is healthy")
    control = stack.orchestrator._producer.control
    names = list[str]()

    def has_answered() -> bool:
        names[:] = [name for answer in control.ping(timeout=2) or () for name in answer if "@tools" in name]
        return bool(names)

    until(has_answered, 60, "the worker has answered a ping")
    control.cancel_consumer(TOOLS_QUEUE, destination=names)
    wait_for_report("tools", tools, 1, "it does not consume roboco.tools")
    control.add_consumer(TOOLS_QUEUE, exchange="", routing_key=TOOLS_QUEUE, destination=names)
    wait_for_report("tools", tools, 0, "is healthy")


def test_a_worker_whose_broker_is_gone_is_unhealthy_and_alive(stack: Stack) -> None:
    with ExitStack() as exits:
        gate = exits.enter_context(Gate(stack.valkey.port))
        with run_worker(stack, "tools-2", ROBOCO_BROKER_URL=f"redis://127.0.0.1:{gate.port}/0") as folder:
            wait_for_report("tools", folder, 0, "is healthy")
            exits.close()
            wait_for_report("tools", folder, 1, "its main loop last ran")
            assert stack.workers["tools-2"].alive()


def test_a_busy_worker_stays_healthy_until_it_has_ended(stack: Stack, agents: Path) -> None:
    """Two turns run, some wait in the worker, and the rest wait in the queue beyond its prefetch limit."""
    enough = threading.Event()
    stack.model.script(lambda request: Reply(text="Well.", held_until=enough))
    wait_for_report("agents", agents, 0, "is healthy")
    for number in range(10):
        stack.orchestrator.run(SPEAKER, f"Task {number}.")
    backlog = stack.orchestrator._engine.services.dispatcher.backlog
    until(lambda: backlog("any") >= 2, 60, lambda: f"messages are left: {backlog('any')}")
    assert_stays_healthy("agents", agents)
    assert backlog("any") >= 2
    server = stack.workers["agents"]
    server.process.terminate()
    until(lambda: "Warm shutdown" in stack.log("agents"), 60, "the worker shuts down")
    assert run_health_check("agents", agents) == (0, "agents is healthy\n")
    enough.set()
    server.process.wait(60)
    assert run_health_check("agents", agents) == (0, "agents is healthy\n")


def test_the_command_reports_a_worker_that_does_not_consume(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        commands, ["health", "agents"], env={"ROBOCO_HEALTH_DIR": str(tmp_path)}, standalone_mode=False
    )
    assert ran.return_value == 1
    assert "it does not consume yet" in ran.output
