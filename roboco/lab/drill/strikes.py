"""Strikes: what each kind of fault does to workers, Redis, the store, the model and tools, and users who act."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from roboco.client.task import Task
from roboco.errors import TransientError
from roboco.lab.drill.executions import ToolOrder
from roboco.lab.drill.scene import Held, Moment, Scene, Strike, ordered
from roboco.lab.servers.chat_protocol import ChatReply
from roboco.lab.servers.model_server import RequestRecord

SLOW_SECONDS: Final = 0.3
REFUSING_SECONDS: Final = 3.0
LATE_SECONDS: Final = 3.0
"""Longer than a worker of a drill waits for the store."""
REFUSAL: Final = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CLOSING_TIMEOUT: Final = 10.0
"""Seconds to wait until a connection to the model is closed, or a notice that it is not."""
EXIT_TIMEOUT: Final = 10.0
"""Seconds that a terminated or continued worker has, after the task has settled."""
SUSPENDED_LEASES: Final = 1.5
"""How many lease times a worker is suspended at least."""
LATE_RESULT_SECONDS: Final = 1.0
"""Seconds that a continued worker has to send its late result."""
MID_TURN: Final = Moment("in the middle of a turn", "agents", "emit", nth=3)
_FIRST_CLAIM: Final = Moment("a turn is claimed", "agents", "claim", answered=True)
_COMMITTED: Final = Moment("a step is committed", "agents", "commit", answered=True)
_STORED_STEP: Final = Moment("a step is stored", "agents", r"PUT /[^ ]*/history/0", "store")
_STORED_LATE: Final = Moment("a step is stored", "agents", r"PUT /[^ ]*/history/0", "store", answered=True)
_ORDERS: Final[dict[ToolOrder, str]] = {"hang": "hangs", "raise": "raises", "die": "its process dies"}


def at(moment: Moment, act: Callable[[Scene, Moment, Held], Strike]) -> Callable[[Scene], Strike]:
    """Return a fault that acts while the worker is held at the moment."""

    def strike(scene: Scene) -> Strike:
        with moment.held(scene) as held:
            if (yield from scene.reaches(held.reached)):
                yield from act(scene, moment, held)

    return strike


def kill_worker(scene: Scene, moment: Moment, held: Held) -> Strike:
    """Kill the worker, and start another one."""
    worker = scene.stack.workers[moment.pool]
    scene.strikes(f"process {worker.pid} was killed")
    scene.stack.signal(worker, signal.SIGKILL)
    worker.process.wait()
    scene.stack.start(moment.pool)
    held.drop()
    yield from _wait_replacement(scene, moment.pool)


def terminate_worker(scene: Scene, moment: Moment, held: Held) -> Strike:
    """Send SIGTERM, and start another worker while the old one drains."""
    worker = scene.stack.workers[moment.pool]
    scene.strikes(f"process {worker.pid} got SIGTERM")
    worker.process.terminate()
    scene.stack.start(moment.pool)
    held.release()
    yield from _wait_replacement(scene, moment.pool)
    yield from scene.wait_settled()
    yield from scene.pause(EXIT_TIMEOUT, lambda: not worker.alive())
    if worker.alive():
        scene.notes.append(f"the worker had not ended {EXIT_TIMEOUT:g} s after the task, and was killed")
        scene.stack.signal(worker, signal.SIGKILL)
        worker.process.wait()
    else:
        scene.notes.append(f"the worker ended with code {worker.process.returncode}")


def suspend_worker(scene: Scene, moment: Moment, held: Held) -> Strike:
    """Suspend the worker until the task has settled without it, continue it, and kill it after its late request."""
    stack, zombie = scene.stack, scene.stack.workers[moment.pool]
    scene.strikes(f"process {zombie.pid} was suspended")
    stack.signal(zombie, signal.SIGSTOP)
    began = time.monotonic()
    try:
        stack.start(moment.pool)
        yield from _wait_replacement(scene, moment.pool)
        yield from scene.wait_settled()
        yield from scene.pause(began + SUSPENDED_LEASES * stack.settings.lease_seconds - time.monotonic())
    finally:
        stack.signal(zombie, signal.SIGCONT)
    scene.notes.append("the suspended worker continued later")
    held.release()
    yield from scene.pause(EXIT_TIMEOUT, held.passed)
    yield from scene.pause(LATE_RESULT_SECONDS)
    stack.signal(zombie, signal.SIGKILL)
    zombie.process.wait()


def _wait_replacement(scene: Scene, pool: str) -> Strike:
    """Wait until the worker that takes its place takes work, and note how long that took."""
    began = time.monotonic()
    if (yield from scene.wait(lambda: scene.stack.is_ready(pool))):
        scene.notes.append(f"another worker took work {time.monotonic() - began:.1f} s later")


def tool_fails(order: ToolOrder) -> Callable[[Scene], Strike]:
    """Return a fault in which the next execution of a tool hangs, raises or dies."""

    def strike(scene: Scene) -> Strike:
        with ordered(scene, order) as taken:
            if (yield from scene.wait(taken)):
                scene.strikes(f"tool {scene.baseline.target!r}, {_ORDERS[order]}")
                yield from scene.wait_settled()

    return strike


def empty_redis(scene: Scene, _: Moment, __: Held) -> Strike:
    """Delete all data in Redis."""
    scene.strikes("all keys were deleted")
    scene.redis_lost = True
    scene.stack.empty_redis()
    yield


def restart_redis(scene: Scene, _: Moment, __: Held) -> Strike:
    """Kill Redis, and start it on its own data."""
    scene.strikes(f"process {scene.stack.valkey.pid} was killed")
    scene.redis_lost = True
    scene.stack.restart_redis()
    yield


def set_redis_back(scene: Scene) -> Strike:
    """Copy the data of Redis while the first turn is claimed; restart Redis on the copy after the turn's commit."""
    with _FIRST_CLAIM.held(scene) as claimed:
        if not (yield from scene.wait(claimed.reached)):
            return
        copy = scene.stack.copy_redis()
    with _COMMITTED.held(scene) as committed:
        if (yield from scene.reaches(committed.reached)):
            scene.strikes("a step was committed after the moment to which Redis was set back")
            scene.redis_lost = True
            scene.stack.restart_redis(copy)


def store_slow(scene: Scene) -> Strike:
    """Delay each request to the store, until the task has settled."""
    store = scene.stack.store
    assert store is not None, "without a store its faults do not apply"
    before, store.delay = sum(store.requests.values()), SLOW_SECONDS
    try:
        if (yield from scene.wait(lambda: sum(store.requests.values()) > before)):
            scene.strikes("requests to the store were delayed")
            yield from scene.wait_settled()
    finally:
        store.delay = 0.0


def store_refuses(scene: Scene) -> Strike:
    """Answer each request to the store with 503 from the moment at which a step is stored."""
    store = scene.stack.store
    assert store is not None, "without a store its faults do not apply"
    with _STORED_STEP.held(scene) as held:
        if not (yield from scene.reaches(held.reached)):
            return
        scene.strikes("a request that stores a step was dropped, others got 503")
        store.refusal = REFUSAL
        held.drop()
    try:
        yield from scene.pause(REFUSING_SECONDS)
    finally:
        store.refusal = b""


def store_answers_late(scene: Scene) -> Strike:
    """Hold the answer to a request that stored a step for longer than the worker waits."""
    with _STORED_LATE.held(scene) as held:
        if (yield from scene.reaches(held.reached)):
            waits = scene.stack.settings.s3_timeout
            scene.strikes(f"the answer was held for {LATE_SECONDS:g} s, the worker waits {waits:g} s")
            yield from scene.pause(LATE_SECONDS)


def model_fails(reply: ChatReply) -> Callable[[Scene], Strike]:
    """Return a fault in which the model's server answers one request in this way."""

    def strike(scene: Scene) -> Strike:
        model = scene.stack.model
        model.fail_next(1, reply)
        try:
            if (yield from scene.wait(lambda: not model.has_failures)):
                scene.strikes("one request of a turn was answered in this way")
                yield from scene.wait_settled()
        finally:
            model.clear_failures()

    return strike


def user_acts(what: str, act: Callable[[Task], object]) -> Callable[[Scene], Strike]:
    """Return a fault in which the user acts while the model answers."""

    def strike(scene: Scene) -> Strike:
        def open_reply() -> RequestRecord | None:
            return next((one for one in scene.requests() if one.chunks_sent >= 2 and not one.completed), None)

        model = scene.stack.model
        model.slow = 10.0
        try:
            reached = yield from scene.reaches(lambda: open_reply() is not None)
        finally:
            model.slow = 1.0
        record = open_reply()
        if not reached or record is None:
            return
        scene.strikes(what)
        scene.interrupted, scene.interruption_sent_at = record, time.monotonic()
        with suppress(TransientError):
            act(scene.tasks[0])
        yield from scene.pause(CLOSING_TIMEOUT, lambda: record.client_disconnected_at is not None or record.completed)

    return strike
