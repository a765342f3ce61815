"""Faults of Redis, of the store and of the model, and users who act in the middle of a turn."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

from roboco.errors import TransientError
from roboco.lab.drill.scene import INTERRUPTION, Moment, Scene, Strike
from roboco.lab.servers.chat_protocol import ChatReply
from roboco.lab.servers.model_server import RequestRecord

SLOW_SECONDS: Final = 0.3
REFUSING_SECONDS: Final = 3.0
LATE_SECONDS: Final = 3.0
"""Longer than a worker of a drill waits for the store."""
REFUSAL: Final = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CLOSING_TIMEOUT: Final = 10.0
"""Seconds to wait until a connection to the model is closed, or a notice that it is not."""
_EMITTING: Final = Moment("in the middle of a turn", "agents", "emit", nth=3)
_FIRST_CLAIM: Final = Moment("a turn is claimed", "agents", "claim", answered=True)
_COMMITTED: Final = Moment("a step is committed", "agents", "commit", answered=True)
_STORED_STEP: Final = Moment("a step is stored", "agents", r"PUT /[^ ]*/history/0", "store")
_STORED_LATE: Final = Moment("a step is stored", "agents", r"PUT /[^ ]*/history/0", "store", answered=True)


def lose_redis(*, empty: bool) -> Callable[[Scene], Strike]:
    """Return a fault that empties Redis, or kills and restarts it, in the middle of a turn."""

    def strike(scene: Scene) -> Strike:
        with _EMITTING.held(scene) as held:
            if (yield from scene.wait(held.reached.is_set)) and scene.is_open():
                scene.strikes("all keys were deleted" if empty else f"process {scene.stack.valkey.pid} was killed")
                scene.redis_lost = True
                scene.stack.empty_redis() if empty else scene.stack.restart_redis()

    return strike


def set_redis_back(scene: Scene) -> Strike:
    """Copy the data of Redis while the first turn is claimed; restart Redis on the copy after the turn's commit."""
    with _FIRST_CLAIM.held(scene) as claimed:
        if not (yield from scene.wait(claimed.reached.is_set)):
            return
        copy = scene.stack.copy_redis()
    with _COMMITTED.held(scene) as committed:
        if (yield from scene.wait(committed.reached.is_set)) and scene.is_open():
            scene.strikes("a step was committed after the moment to which Redis was set back")
            scene.redis_lost = True
            scene.stack.restart_redis(copy)


def store_slow(scene: Scene) -> Strike:
    """Delay each request to the store, until the task has settled."""
    store = scene.stack.store
    if store is None:
        return
    before, store.delay = sum(store.requests.values()), SLOW_SECONDS
    try:
        if (yield from scene.wait(lambda: sum(store.requests.values()) > before)):
            scene.strikes("requests to the store were delayed")
            yield from scene.wait(lambda: False)
    finally:
        store.delay = 0.0


def store_refuses(scene: Scene) -> Strike:
    """Answer each request to the store with 503 from the moment at which a step is stored."""
    store = scene.stack.store
    if store is None:
        return
    with _STORED_STEP.held(scene) as held:
        if not ((yield from scene.wait(held.reached.is_set)) and scene.is_open()):
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
    if scene.stack.store is None:
        return
    with _STORED_LATE.held(scene) as held:
        if (yield from scene.wait(held.reached.is_set)) and scene.is_open():
            scene.strikes(
                f"the answer was held for {LATE_SECONDS:g} s, the worker waits {scene.stack.settings.s3_timeout:g} s"
            )
            yield from scene.pause(LATE_SECONDS)


def model_fails(reply: ChatReply) -> Callable[[Scene], Strike]:
    """Return a fault in which the model's server answers one request in this way."""

    def strike(scene: Scene) -> Strike:
        model = scene.stack.model
        model.fail_next(1, reply)
        try:
            if (yield from scene.wait(lambda: not model.has_failures)):
                scene.strikes("one request of a turn was answered in this way")
                yield from scene.wait(lambda: False)
        finally:
            model.clear_failures()

    return strike


def interrupt(scene: Scene) -> Strike:
    """Interrupt a turn with a message while the model answers."""
    with _open_reply(scene) as reply:
        if (record := (yield from reply)) is not None and scene.is_open():
            scene.strikes("a message interrupted a reply of the model")
            scene.interrupted, scene.interruption_sent_at = record, time.monotonic()
            with suppress(TransientError):
                scene.tasks[0].interrupt(INTERRUPTION)
            yield from _wait_closed(scene, record)


def stop(scene: Scene) -> Strike:
    """Stop the task while the model answers."""
    with _open_reply(scene) as reply:
        if (record := (yield from reply)) is not None and scene.is_open():
            scene.strikes("the stop was sent during a reply of the model")
            scene.interrupted, scene.interruption_sent_at = record, time.monotonic()
            scene.tasks[0].stop("stopped by the drill")
            yield from _wait_closed(scene, record)


@contextmanager
def _open_reply(scene: Scene) -> Generator[Generator[None, None, RequestRecord | None], None, None]:
    """Slow the model down inside the block. Yield a generator that returns a request whose reply has begun, or None."""
    scene.stack.model.slow = 10.0

    def begun() -> RequestRecord | None:
        return next((one for one in scene.requests() if one.chunks_sent >= 2 and not one.completed), None)

    def wait() -> Generator[None, None, RequestRecord | None]:
        yield from scene.wait(begun)
        scene.stack.model.slow = 1.0
        return begun()

    try:
        yield wait()
    finally:
        scene.stack.model.slow = 1.0


def _wait_closed(scene: Scene, record: RequestRecord) -> Generator[None, None, None]:
    deadline = time.monotonic() + CLOSING_TIMEOUT
    while record.client_disconnected_at is None and not record.completed and time.monotonic() < deadline:
        yield
