"""Faults of workers and of tools: processes killed, suspended and terminated; tools that hang, raise and die."""

import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

from roboco.adapters.local.process import Server
from roboco.lab.drill.executions import OrderKind, ToolOrder
from roboco.lab.drill.scene import Moment, Scene, Strike
from roboco.lab.servers.gate import HeldRequest

EXIT_TIMEOUT: Final = 10.0
"""Seconds that a terminated or continued worker has, after the task has settled."""
SUSPENDED_LEASES: Final = 1.5
"""How many lease times a worker is suspended at least."""


def kill_worker(moment: Moment) -> Callable[[Scene], Strike]:
    """Return a fault that kills the worker at the moment, and starts another one."""

    def strike(scene: Scene) -> Strike:
        with moment.held(scene) as held:
            if (yield from scene.wait(held.reached.is_set)) and scene.is_open():
                _kill(scene, moment.pool)
                held.drop()
                yield from _wait_replacement(scene, moment.pool)

    return strike


def terminate_worker(moment: Moment) -> Callable[[Scene], Strike]:
    """Return a fault that sends SIGTERM at the moment, and starts another worker while the old one drains."""

    def strike(scene: Scene) -> Strike:
        with moment.held(scene) as held:
            if (yield from scene.wait(held.reached.is_set)) and scene.is_open():
                yield from _terminate(scene, moment.pool, held.release)

    return strike


def suspend_worker(moment: Moment) -> Callable[[Scene], Strike]:
    """Return a fault that suspends the worker at the moment until another one has taken over, and then continues it."""

    def strike(scene: Scene) -> Strike:
        with moment.held(scene) as held:
            if (yield from scene.wait(held.reached.is_set)) and scene.is_open():
                yield from _suspend(scene, moment.pool, held)

    return strike


def tool_pool_fails(verb: str) -> Callable[[Scene], Strike]:
    """Return a fault of the tools worker while a tool runs: after its effect, before its result."""

    def strike(scene: Scene) -> Strike:
        with _ordered(scene, "wait") as taken:
            if not ((yield from scene.wait(taken)) and scene.is_open()):
                return
            release = scene.stack.executions.release
            match verb:
                case "kill":
                    _kill(scene, "tools")
                    release()  # for an execution that takes its place
                    yield from _wait_replacement(scene, "tools")
                case "terminate":
                    yield from _terminate(scene, "tools", release)
                case _:
                    yield from _suspend(scene, "tools", None)
                    release()

    return strike


def tool_fails(kind: OrderKind) -> Callable[[Scene], Strike]:
    """Return a fault in which the next execution of a tool hangs, raises or dies."""

    def strike(scene: Scene) -> Strike:
        with _ordered(scene, kind) as taken:
            if (yield from scene.wait(taken)):
                scene.strikes(f"tool {_target(scene)!r}, {_TOOL_TEXTS[kind]}")
                yield from scene.wait(lambda: False)

    return strike


_TOOL_TEXTS: Final = {"hang": "hangs", "raise": "raises", "die": "its process dies", "wait": "waits"}


def _target(scene: Scene) -> str:
    """Return the tool of the team that the fault concerns: an irreversible one, if the team calls one."""
    tools = scene.baseline.tools
    return next((tool for tool in tools if tool in scene.baseline.irreversible), tools[0])


@contextmanager
def _ordered(scene: Scene, kind: OrderKind) -> Iterator[Callable[[], bool]]:
    executions = scene.stack.executions
    executions.order(ToolOrder(_target(scene), kind))
    try:
        yield executions.was_taken
    finally:
        executions.release()
        executions.withdraw()


def _kill(scene: Scene, pool: str) -> None:
    worker = scene.stack.workers[pool]
    scene.strikes(f"process {worker.pid} was killed")
    scene.stack.signal(worker, signal.SIGKILL)
    worker.process.wait()
    scene.stack.start(pool)


def _terminate(scene: Scene, pool: str, release: Callable[[], None]) -> Generator[None, None, None]:
    worker = scene.stack.workers[pool]
    scene.strikes(f"process {worker.pid} got SIGTERM")
    worker.process.terminate()
    scene.stack.start(pool)
    release()
    yield from _wait_replacement(scene, pool)
    yield from scene.wait(lambda: False)
    yield from _wait_end(scene, worker)


def _wait_replacement(scene: Scene, pool: str) -> Generator[None, None, None]:
    """Wait until the worker that takes its place takes work, and note how long that took."""
    began = time.monotonic()
    if (yield from scene.wait(lambda: scene.stack.is_ready(pool))):
        scene.notes.append(f"another worker took work {time.monotonic() - began:.1f} s later")


def _wait_end(scene: Scene, worker: Server) -> Generator[None, None, None]:
    """Wait until the terminated worker has ended; kill it after a while."""
    deadline = time.monotonic() + EXIT_TIMEOUT
    while worker.alive():
        if time.monotonic() > deadline:
            scene.notes.append(f"the worker had not ended {EXIT_TIMEOUT:g} s after the task, and was killed")
            scene.stack.signal(worker, signal.SIGKILL)
            worker.process.wait()
            return
        yield
    scene.notes.append(f"the worker ended with code {worker.process.returncode}")


def _suspend(scene: Scene, pool: str, held: HeldRequest | None) -> Generator[None, None, None]:
    """Suspend the worker until the task has settled without it, continue it, and kill it after its late request."""
    stack, zombie = scene.stack, scene.stack.workers[pool]
    scene.strikes(f"process {zombie.pid} was suspended")
    stack.signal(zombie, signal.SIGSTOP)
    began = time.monotonic()
    try:
        stack.start(pool)
        yield from _wait_replacement(scene, pool)
        yield from scene.wait(lambda: False)
        yield from scene.pause(began + SUSPENDED_LEASES * stack.settings.lease_seconds - time.monotonic())
    finally:
        stack.signal(zombie, signal.SIGCONT)
    scene.notes.append("the suspended worker continued later")
    if held is None:
        stack.executions.release()
        yield from scene.pause(1.0)  # its late result
    else:
        held.release()
        deadline = time.monotonic() + EXIT_TIMEOUT
        while not held.passed.is_set() and time.monotonic() < deadline:
            yield
        yield from scene.pause(0.5)
    stack.signal(zombie, signal.SIGKILL)
    zombie.process.wait()
