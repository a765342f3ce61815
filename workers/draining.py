"""draining: a worker that is shutting down ends within a bounded time.

    SIGTERM, or roboco drain ─► no new messages ─► work ends by itself ─► exit
                                     └── ROBOCO_DRAIN_TIMEOUT later, or at a second SIGTERM: work is handed over ─► exit
                                                                             └── EXIT_GRACE later: killed

A drain with a longer time may be followed by the SIGTERM of a supervisor, whose grace period suits the setting. So this
SIGTERM is the first one: the work then has the setting's time, unless less is left.

The deadline is in memory that the processes of a prefork pool share, so that each of them hands over its own call. A
process that dies before that leaves its leases to expire, as after a crash.

Some supervisors send SIGTERM to every process of the worker. A child ignores it while it runs a Celery task and its
parent lives: the parent decides when the work ends, and kills a child by SIGKILL.
"""

import logging
import math
import mmap
import os
import signal
import struct
import threading
import time
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from billiard import active_children
from celery import Celery
from celery.signals import task_postrun, task_prerun, worker_ready, worker_shutting_down

from roboco.ports.host import Host

_log = logging.getLogger(__name__)

EXIT_GRACE: Final = 45.0
"""Seconds after the deadline in which work is handed over and the pool ends. Then the worker kills itself. A child of
billiard's pool may wait 30 s for its parent."""
_POLL_INTERVAL: Final = 0.5
_TIME: Final = struct.Struct("d")


class DrainDeadline(Host):
    """The time at which this worker hands over its work, for all processes of its pool."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        """Seconds after SIGTERM in which work may end by itself."""
        self._memory = mmap.mmap(-1, _TIME.size)  # anonymous and shared: forked processes see each change
        self._main_pid = os.getpid()
        self._is_asked = False
        """True until the signal that `ask` has sent arrives."""
        self._was_terminated = False
        self._usual_handler: Any = signal.SIG_DFL

    def begin(self) -> None:
        """Begin the time in which work may end; end it if another SIGTERM has begun it. A signal handler calls this."""
        if self._is_asked:
            self._is_asked = False
        elif self._was_terminated:
            self._end_within(0)
        else:
            self._was_terminated = True
            self._end_within(self.timeout)

    def ask(self, timeout: float | None) -> None:
        """Shut this worker down as SIGTERM does, with this time in place of the setting's, unless it is None."""
        self._end_within(self.timeout if timeout is None else timeout)
        self._is_asked = True
        os.kill(os.getpid(), signal.SIGTERM)

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline, at least 0, or None if the worker was not to shut down."""
        at = self._at()
        return max(0.0, at - time.monotonic()) if at else None

    def is_shutdown_due(self) -> bool:
        """Return True once the deadline has passed."""
        return self.seconds_left() == 0.0

    def interrupt_call(self) -> None:
        """Raise the exception of the soft time limit in the main thread of this process of a prefork pool."""
        if self._is_child():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def kill(self) -> None:
        """Kill this process, if it is one of a prefork pool."""
        if self._is_child():
            os.kill(os.getpid(), signal.SIGKILL)

    def ignore_sigterm(self, **_: Any) -> None:
        """Let this process, if it is one of a prefork pool, ignore SIGTERM from now on."""
        if self._is_child():
            self._usual_handler = signal.signal(signal.SIGTERM, partial(self._keep_working, os.getpid()))

    def obey_sigterm(self, **_: Any) -> None:
        """Let this process, if it is one of a prefork pool, end at SIGTERM again."""
        if self._is_child():
            signal.signal(signal.SIGTERM, self._usual_handler)

    def _keep_working(self, child_pid: int, *_: object) -> None:
        """Return if this is a child of the worker. Its own children that inherit the handler end, as orphans do."""
        if os.getpid() != child_pid or os.getppid() != self._main_pid:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    def _is_child(self) -> bool:
        return os.getpid() != self._main_pid

    def _end_within(self, seconds: float) -> None:
        _TIME.pack_into(self._memory, 0, min(self._at() or math.inf, time.monotonic() + seconds))

    def _at(self) -> float:
        found: float = _TIME.unpack_from(self._memory)[0]
        return found


def install_draining(app: Celery, deadline: DrainDeadline) -> None:
    """Let a worker of the application drain when it is shut down.

    A second SIGTERM ends the time in which its work may end by itself.
    """
    signals: SimpleQueue[None] = SimpleQueue()

    def begin(sender: Any = None, **_: Any) -> None:
        if getattr(sender, "app", None) is app:
            threading.Thread(target=_follow, args=(signals, deadline), name="roboco-drain", daemon=True).start()

    def drain(**_: Any) -> None:
        # A signal handler: it logs nothing and takes no lock, which the interrupted thread may hold.
        deadline.begin()
        signals.put(None)

    task_prerun.connect(deadline.ignore_sigterm, weak=False)
    task_postrun.connect(deadline.obey_sigterm, weak=False)
    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(drain, weak=False)


def _follow(signals: SimpleQueue[None], deadline: DrainDeadline) -> None:
    """Log the phases of the shutdown. End the process if it does not end in time."""
    signals.get()
    left = deadline.seconds_left() or 0.0
    _log.warning("this worker drains: work that does not end within %.0f s is handed over to others", left)
    while left := deadline.seconds_left() or 0.0:
        time.sleep(min(left, _POLL_INTERVAL))
    _log.warning("this worker hands its work over and ends")
    time.sleep(EXIT_GRACE)
    _log.error("this worker does not end %g s after that, and is killed; its leases expire", EXIT_GRACE)
    for child in active_children():
        os.kill(int(child.pid or 0) or os.getpid(), signal.SIGKILL)
    os._exit(os.EX_SOFTWARE)
