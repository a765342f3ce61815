"""Disturbances by other workers, the broker, time and Redis, which affect no single process."""

from collections.abc import Callable
from typing import Protocol

from tests.faults.explore.process import SimulatedProcess
from tests.support.memory_ports.dispatcher import Message
from tests.support.memory_ports.server import StoredData
from tests.support.memory_ports.world import World

DELAYS = (0.5, 2.5, 11.0, 16.0, 61.0, 301.0, 1801.0, 4000.0)
"""Seconds that pass at a disturbance."""


class Deployment(Protocol):
    """The part of a run that these disturbances use. `copies` are earlier states of Redis."""

    world: World
    copies: list[StoredData]
    losses: int
    refusing: bool
    unnoticed_restart: bool

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
    run.refusing = not run.refusing


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
}
"""Functions by the kind of the disturbance. The choice is from 0 to 7."""
