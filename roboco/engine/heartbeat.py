"""LeaseHeartbeat: renews the leases of this process while their work does not write to Redis itself.

    interval ─► leases by server ─► a thread per server: one round trip ─► status of each lease ─► its work
                      │                        │                                │
                      │                        │                                └── the work has ended: ignored
                      │                        └── no answer: an error for each lease, and the next interval renews them
                      └── the last round trip to this server has not ended: this server waits for the next interval

A lease is a claim with an expiry time. While a worker renews it, no other worker may claim the work; if the worker
dies, the lease expires. The heartbeat's interval is a fraction of the lease time, so that a lease survives a few
renewals that fail. If Redis refuses a renewal, the lease has expired, and another attempt may have the work: the
heartbeat reports the loss, so that the work ends early. Correctness does not depend on that, because the writes of the
work carry its fencing token.

Each interval costs O(leases) work and one round trip for each server. A server that hangs delays only its own leases,
and occupies one thread.
"""

import contextvars
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from roboco.errors import TransientError
from roboco.ports.lease_renewals import Lease, LeaseStatus, Renew, ServerOf, TurnLease

_log = logging.getLogger(__name__)


def _ignore() -> None:
    """Do nothing: the work has no use for this report."""


@dataclass(eq=False)
class _Work:
    """Work that holds a lease. It ignores a renewal that another thread reports late."""

    lease: Lease
    on_lost: Callable[[], None]
    on_cancel: Callable[[], None]
    note: Callable[[], str]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    """The context of the work, which log records name."""
    cancelled: bool = False
    """True after `on_cancel` was called."""


class LeaseHeartbeat:
    """Renews all leases every `interval` seconds, in threads that end when no lease is left.

    The work never waits for a renewal, and no renewal of a lease begins after its work has ended.
    """

    def __init__(self, renew: Renew, server_of: ServerOf, interval: float) -> None:
        self._renew_all = renew
        self._server_of = server_of
        self._interval = interval
        self._changed = threading.Condition()
        self._held: dict[_Work, None] = {}
        self._busy: set[str] = set()
        """The servers that have not answered the last renewal yet."""
        self._thread: threading.Thread | None = None

    @contextmanager
    def renewing(
        self,
        lease: Lease,
        on_lost: Callable[[], None] = _ignore,
        on_cancel: Callable[[], None] = _ignore,
        note: Callable[[], str] = str,
    ) -> Iterator[None]:
        """Renew a lease until the block ends.

        If a renewal is refused, call `on_lost`. If it reports a request to cancel the work, call `on_cancel`. Each is
        called once at most, in a thread of the heartbeat. Each renewal of a turn carries its `note`.
        """
        work = _Work(lease, on_lost, on_cancel, note)
        try:
            with self._changed:
                self._held[work] = None
                self._ensure_running()
            yield
        finally:
            with self._changed:
                self._held.pop(work, None)
                if not self._held:
                    self._changed.notify()  # the thread waits for that alone

    def _ensure_running(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="roboco-heartbeat", daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._held, timeout=self._interval)
                if not self._held:
                    self._thread = None
                    return
                held = list(self._held)
            for server, works in self._by_server(held).items():
                self._start_renewal(server, works)

    def _by_server(self, held: list[_Work]) -> dict[str, list[_Work]]:
        found: dict[str, list[_Work]] = defaultdict(list)
        for work in held:
            try:
                server = self._server_of(work.lease)
            except Exception:
                work.context.copy().run(_log.exception, "the server of a lease is not known; the lease is renewed last")
                server = ""
            found[server].append(work)
        return found

    def _start_renewal(self, server: str, works: list[_Work]) -> None:
        """Renew the leases of a server in a thread, unless the last renewal there has not ended."""
        with self._changed:
            if server in self._busy:
                return
            self._busy.add(server)
        name = f"roboco-heartbeat-renewal {server}".rstrip()
        thread = threading.Thread(target=self._renew, args=(server, works), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left, or the process ends
            self._end_renewal(server)
            _log.exception("%d leases could not be renewed and are tried again", len(works))

    def _renew(self, server: str, works: list[_Work]) -> None:
        try:
            with self._changed:
                works = [work for work in works if work in self._held]
            answers = self._answers_to(works)
        finally:
            self._end_renewal(server)  # before the reports: one that hangs delays no renewal
        failures: dict[str, list[tuple[_Work, Exception]]] = defaultdict(list)
        for work, answer in zip(works, answers, strict=True):
            if isinstance(answer, Exception):
                failures[str(answer)].append((work, answer))
            else:
                work.context.copy().run(self._report, work, answer)
        for failed in failures.values():
            self._log_failure(failed)

    def _answers_to(self, works: list[_Work]) -> Sequence[LeaseStatus | Exception]:
        if not works:
            return []
        try:
            return self._renew_all([_with_note(work) for work in works])
        except Exception as error:
            return [error] * len(works)

    def _end_renewal(self, server: str) -> None:
        with self._changed:
            self._busy.discard(server)

    def _log_failure(self, failed: list[tuple[_Work, Exception]]) -> None:
        """Log a failure once, however many leases it concerns, in the context of the first work that still runs."""
        with self._changed:
            running = [(work, error) for work, error in failed if work in self._held]
        if not running:
            return
        work, error = running[0]
        log, count = work.context.copy().run, len(running)
        leases = "a lease" if count == 1 else f"{count} leases"
        verb = "and is" if count == 1 else "and are"
        if isinstance(error, TransientError):
            log(_log.warning, "%s could not be renewed %s tried again: %s", leases, verb, error)
        else:
            log(partial(_log.error, exc_info=error), "%s could not be renewed %s tried again", leases, verb)

    def _report(self, work: _Work, answer: LeaseStatus) -> None:
        """Report the answer to the work, unless the work has ended."""
        with self._changed:
            if work not in self._held:
                return
            if answer is LeaseStatus.LOST:
                del self._held[work]
            cancels = answer is LeaseStatus.CANCEL_REQUESTED and not work.cancelled
            work.cancelled = work.cancelled or cancels
        try:
            if answer is LeaseStatus.LOST:
                work.on_lost()
            elif cancels:
                work.on_cancel()
        except Exception:
            _log.exception("the status of a lease could not be reported to its work")


def _with_note(work: _Work) -> Lease:
    if not isinstance(work.lease, TurnLease):
        return work.lease
    return replace(work.lease, note=work.context.copy().run(work.note))
