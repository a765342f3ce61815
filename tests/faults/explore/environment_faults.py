"""Disturbances by other workers, the broker, time, Redis and the store, which affect no single process."""

from collections.abc import Callable
from typing import Protocol

from tests.faults.explore.process import SimulatedProcess
from tests.faults.explore.shapes import TaskFiles
from tests.support.memory_ports.dispatcher import Message
from tests.support.memory_ports.server import StoredData
from tests.support.memory_ports.world import World

DELAYS = (0.5, 2.5, 11.0, 16.0, 61.0, 301.0, 1801.0, 4000.0)
"""Seconds that pass at a disturbance."""
OUTAGE = 3600.0
"""Seconds for which the store refuses each request, unless the next disturbance of this kind ends that."""
DAY = 90_000.0
"""Seconds after which a scan of the retention begins again, and the last check of an erasure is due."""


class Deployment(Protocol):
    """The part of a run that these disturbances use. `copies` are earlier states of Redis."""

    world: World
    files: TaskFiles
    copies: list[StoredData]
    losses: int
    refused_until: float
    unnoticed_restart: bool
    lists_late: bool

    @property
    def held(self) -> list[SimulatedProcess]:
        """The held processes."""

    def release(self, process: SimulatedProcess) -> None:
        """Continue a held process."""

    def deliver(self, message: Message) -> None:
        """Start a worker that takes the message."""

    def sweep(self) -> None:
        """Start a sweep."""

    def beat(self) -> None:
        """Start the heartbeats of all processes."""

    def retain(self) -> None:
        """Start a scan of the retention."""


def _release(run: Deployment, choice: int) -> None:
    if run.held:
        run.release(run.held[choice % len(run.held)])


def _deliver(run: Deployment, choice: int) -> None:
    if queue := run.world.dispatcher.queue:
        message = queue[choice % len(queue)]
        del queue[choice % len(queue)]
        run.deliver(message)


def _again(run: Deployment, choice: int) -> None:
    if sent := run.world.dispatcher.sent:
        run.deliver(sent[-1 - choice % len(sent)])


def _lose(run: Deployment, choice: int) -> None:
    if queue := run.world.dispatcher.queue:
        del queue[choice % len(queue)]


def _copy(run: Deployment, choice: int) -> None:
    if queue := run.world.dispatcher.queue:
        queue.append(queue[choice % len(queue)])


def _sweep(run: Deployment, choice: int) -> None:
    _pass(run, choice)
    run.sweep()


def _pass(run: Deployment, choice: int) -> None:
    run.world.clock.move(DELAYS[choice])


def _beat(run: Deployment, choice: int) -> None:
    run.beat()


def _deaf(run: Deployment, choice: int) -> None:
    run.world.server.deaf = not run.world.server.deaf


def _wipe(run: Deployment, choice: int) -> None:
    run.losses += 1
    run.world.server.wipe()


def _restart(run: Deployment, choice: int) -> None:
    run.world.server.restore(run.world.server.copy())
    run.unnoticed_restart |= run.world.server.held.filled_instance == 0


def _back(run: Deployment, choice: int) -> None:
    run.losses += 1
    run.world.server.restore(run.copies[-1 - choice % len(run.copies)])
    run.unnoticed_restart |= run.world.server.held.filled_instance == 0


def _refuse(run: Deployment, choice: int) -> None:
    now = run.world.clock.now()
    run.refused_until = 0.0 if now < run.refused_until else now + OUTAGE


def _stale(run: Deployment, choice: int) -> None:
    run.lists_late = True
    run.files.freeze_lists()


def _retain(run: Deployment, choice: int) -> None:
    run.world.clock.move(DAY if choice >= 4 else 0.0)
    run.retain()


ENVIRONMENT_FAULTS: dict[str, Callable[[Deployment, int], None]] = {
    "release": _release,
    "deliver": _deliver,
    "again": _again,
    "lose": _lose,
    "copy": _copy,
    "sweep": _sweep,
    "pass": _pass,
    "beat": _beat,
    "deaf": _deaf,
    "wipe": _wipe,
    "restart": _restart,
    "back": _back,
    "refuse": _refuse,
    "stale": _stale,
    "retain": _retain,
}
"""Functions by the kind of the disturbance. The choice is from 0 to 7."""
