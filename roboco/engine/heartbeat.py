"""LeaseHeartbeat: renews the leases of this process while their work does not write to Redis itself.

A lease is a claim with an expiry time. While a worker renews it, no other worker may claim the work; if the worker
dies, the lease expires. The heartbeat's interval is a fraction of the lease time, so that a lease survives a few
renewals that fail. If Redis refuses a renewal, the lease has expired, and another attempt may have the work: the
heartbeat reports the loss, so that the work ends early. Correctness does not depend on that, because the writes of the
work carry its fencing token.
"""

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from roboco.errors import TransientError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Lease:
    renew: Callable[[], bool]
    on_lost: Callable[[], None]
    context: contextvars.Context
    """The context of the work, which log records name."""


class LeaseHeartbeat:
    """Renews all leases every `interval` seconds, in one thread that ends when no lease is left.

    The work never waits for a renewal, and no lease is renewed after its work has ended.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._changed = threading.Condition()
        self._leases: dict[object, _Lease] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def renewing(self, renew: Callable[[], bool], on_lost: Callable[[], None]) -> Iterator[None]:
        """Renew a lease until the block ends. If a renewal is refused, call `on_lost` once in its thread."""
        key = object()
        with self._changed:
            self._leases[key] = _Lease(renew, on_lost, contextvars.copy_context())
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="roboco-heartbeat", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._leases.pop(key, None)
                if not self._leases:
                    self._changed.notify()  # the thread waits for that alone

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._leases, timeout=self._interval)
                if not self._leases:
                    self._thread = None
                    return
                leases = list(self._leases.items())
            for key, one in leases:
                one.context.run(self._renew, key, one)

    def _renew(self, key: object, lease: _Lease) -> None:
        with self._changed:
            if key not in self._leases:
                return
        try:
            ours = lease.renew()
        except TransientError as error:
            _log.warning("a lease could not be renewed and is tried again: %s", error)
            return
        except Exception:
            _log.exception("a lease could not be renewed and is tried again")
            return
        with self._changed:
            refused = not ours and self._leases.pop(key, None) is not None
        if refused:
            self._report_loss(lease)

    def _report_loss(self, lease: _Lease) -> None:
        try:
            lease.on_lost()
        except Exception:
            _log.exception("the loss of a lease could not be reported to its work")
