"""HeldWork: the turns and calls that this process runs, and the thread that takes them from it.

    each 0.25 s: shutdown due, or switched off with interruption ─► interrupt ─► the work's thread ends it ─► hand over
                                                                        └── 2 s later it still runs ─► hand over here

To hand work over is to give up its lease in Redis, so that another worker may claim it at once. From then on Redis
refuses everything that this process writes for it. So it does not matter which of the two threads hands over, nor at
which stage the work is: if the work is done at that moment, its lease is gone, and nothing is handed over. If the
process dies first, or Redis does not answer, the lease expires, as after any death of a worker.

Work without a hand-over, such as a call of an irreversible tool, runs until it ends.

Quarantine: of the turns that have repeatedly lost their workers, a process runs one at a time. A turn that crashes its
process ends the other turns of that process too, and each of them has used an attempt. If all ran again side by side,
one poison turn would use up the attempts of a hundred healthy ones. So the last two attempts run alone: a healthy turn
succeeds there.
"""

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from roboco.domain.switch import SwitchableWork
from roboco.engine.switches import SwitchBoard
from roboco.errors import TransientError
from roboco.ports.host import Host


class Quarantine:
    """A lock of this process for turns that may have crashed their workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def admit(self, attempt: int, max_attempts: int) -> Iterator[bool]:
        """Hold the lock until the block ends, if this attempt needs it. Yield False if another turn holds it."""
        if attempt < max(2, max_attempts - 1):
            yield True
            return
        acquired = self._lock.acquire(blocking=False)
        try:
            yield acquired
        finally:
            if acquired:
                self._lock.release()


_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 0.25
"""Seconds between two checks while work is held."""
INTERRUPT_GRACE: Final = 2.0
"""Seconds that interrupted work has to end by itself: to commit a reply that is complete, or to clean up."""
SHUTDOWN_REASON: Final = "the worker was shut down"


class HeldItem:
    """A turn or a call that this process runs."""

    def __init__(self, work: SwitchableWork, interrupt: Callable[[], None], hand_over: Callable[[str], None]) -> None:
        self.work = work
        self.context = contextvars.copy_context()
        self.reason = ""
        """Why it was interrupted, or ""."""
        self.ended = threading.Event()
        self._interrupted = threading.Event()
        self._interrupt = interrupt
        self._hand_over = hand_over
        self._lock = threading.Lock()
        self._is_handed_over = False

    def interrupt(self) -> None:
        """Have the work end. An error is logged: the work is handed over all the same."""
        try:
            self._interrupt()
        except Exception:
            _log.exception("work is not interrupted")
        finally:
            self._interrupted.set()

    def settle(self) -> None:
        """Wait for an exception that was sent to this thread, so that it is raised here and not later."""
        if self.reason:
            self._interrupted.wait(INTERRUPT_GRACE)

    def end(self) -> None:
        """Hand the work over if it was interrupted. An interruption of this moment must not reach the next work."""
        try:
            self.settle()
        except Exception as error:
            _log.debug("work that ends was interrupted: %r", error)
        if self.reason:
            self.hand_over()
        self.ended.set()

    def hand_over(self) -> None:
        """Hand the work over, once. An error is logged: the lease of the work expires then."""
        with self._lock:
            if self._is_handed_over:
                return
            self._is_handed_over = True
            try:
                self._hand_over(self.reason)
            except TransientError as error:
                _log.warning("work is not handed over, and its lease expires: %s", error)
            except Exception:
                _log.exception("work is not handed over, and its lease expires")


class HeldWork:
    """The work of this process. Its thread runs while there is some."""

    def __init__(self, host: Host, switches: SwitchBoard) -> None:
        self.host = host
        self._switches = switches
        self._changed = threading.Condition()
        self._held: dict[HeldItem, None] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def holding(
        self, work: SwitchableWork, interrupt: Callable[[], None], hand_over: Callable[[str], None]
    ) -> Iterator[HeldItem]:
        """Hold the work until the block ends. If it was interrupted meanwhile, hand it over then.

        `interrupt` is called in another thread and must return soon. `hand_over` gets the reason. It is called in this
        thread, or in the other one if the block does not end in time, and must have no effect on work that is done.
        """
        item = HeldItem(work, interrupt, hand_over)
        with self._changed:
            self._held[item] = None
            self._ensure_running()
        try:
            yield item
        finally:
            try:
                self._let_go(item)
            finally:  # an interruption may be raised in the block above
                item.end()

    def settle(self, item: HeldItem) -> None:
        """End the time in which the work may be interrupted; raise an interruption of this moment here, not later.

        The thread of the work calls this before it stores a result. If the work was interrupted, the end of its block
        hands it over, which has no effect on work whose result is stored.
        """
        self._let_go(item)
        item.settle()

    def _let_go(self, item: HeldItem) -> None:
        with self._changed:
            self._held.pop(item, None)
            if not self._held:
                self._changed.notify()  # the thread waits for that alone

    def check(self) -> None:
        """Interrupt the work that has to end now, and hand over the part of it that does not end in time."""
        with self._changed:
            held = [item for item in self._held if not item.reason]
        found = {item: reason for item in held if (reason := self._reason(item.work))}
        with self._changed:
            taken = [item for item in found if item in self._held]
            for item in taken:
                item.reason = found[item]  # under the lock: if its block ends from now on, it hands the work over
        for item in taken:
            item.context.copy().run(item.interrupt)
        deadline = time.monotonic() + INTERRUPT_GRACE
        for item in taken:
            if not item.ended.wait(max(0.0, deadline - time.monotonic())):
                item.context.copy().run(self._take, item)

    def _take(self, item: HeldItem) -> None:
        item.hand_over()
        if not item.ended.wait(CHECK_INTERVAL) and item.work.tool:
            _log.warning("a call of tool %r does not end, so its process is killed", item.work.tool)
            self.host.kill()

    def _reason(self, work: SwitchableWork) -> str:
        """Return why the work must end now, or ""."""
        if self.host.is_shutdown_due():
            return SHUTDOWN_REASON
        try:
            switch = self._switches.current().blocking(work, interrupting=True)
        except TransientError as error:
            _log.warning("no work is interrupted, because the switches cannot be read: %s", error)
            return ""
        return "" if switch is None else switch.cause

    def _ensure_running(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="roboco-held-work", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._held, timeout=CHECK_INTERVAL)
                if not self._held:
                    self._thread = None
                    return
            try:
                self.check()
            except Exception:  # the thread must survive
                _log.exception("the check of the work that this process holds failed and is tried again")
