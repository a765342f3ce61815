"""The tokens of finished requests, which one script call records for many requests to a model server.

    a reply ─► first of a while, or tickets wait: recorded at once
           └─► kept for 3/4 of a slot ─► with the next admission, at the latest after a slot ─► one call for all
                       └── until they are 50: recorded at once

A call costs Redis' thread more than the work in it, because the processor's caches are cold between calls. So a process
makes at most four calls in three slots for each server, besides full ones, and most of them directly before an
admission, in the same round trip. A late record is counted in the slot in which its request was sent. Until then its
reservation counts; also if the process dies first, for as long as the slot counts. A record that Redis gets twice is
recorded once, because it removes the admission of its request.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from roboco.errors import TransientError
from roboco.redis.scripts import ScriptCall, Scripts

_log = logging.getLogger(__name__)

MAX_RECORDS: Final = 50
"""Records that are kept for a server at most."""
_MAX_IDLE_SERVERS: Final = 256
"""Servers without kept records that are remembered at most."""


@dataclass(frozen=True)
class UsageRecord:
    """The tokens of a finished request."""

    model: str
    admission: str
    """The Redis key of its admission."""
    usages: tuple[tuple[str, int | None], ...]
    """The Redis keys of the usage of its limits, with the tokens for each minute of the limit: one or two."""
    tokens: int
    sent_at: float
    """The time at which it was sent, of the monotonic clock."""


@dataclass
class _Server:
    """The kept records of a model at an address."""

    records: list[UsageRecord] = field(default_factory=list)
    due_at: float = 0.0
    """The time from which they are sent: three quarters of a slot after the last call."""
    awaited_until: float = 0.0
    """The time until which each record is sent at once, because tickets wait for tokens."""

    def is_idle(self, now: float) -> bool:
        return not self.records and now >= max(self.due_at, self.awaited_until)

    def takes(self, record: UsageRecord, now: float) -> bool:
        """Keep the record. Return False if it must be sent at once, with the others."""
        first = self.is_idle(now)
        self.records.append(record)
        return not first and now >= self.awaited_until and len(self.records) < MAX_RECORDS


class UsageRecords:
    """Records the tokens of requests from any thread. Records that are kept are sent by a thread, which then ends.

    The process ends after that thread, so a process that ends by itself loses no record.
    """

    def __init__(self, scripts: Scripts, window_ms: int, slot_ms: int) -> None:
        self._scripts = scripts
        self._window_ms = window_ms
        self._slot_ms = slot_ms
        self._keep_seconds = 0.75 * slot_ms / 1000
        self._admission_seconds = 0.25 * slot_ms / 1000
        """Seconds for which records that are due wait for an admission."""
        self._servers: dict[str, _Server] = {}
        self._lock = threading.Lock()
        self._running = False

    def add(self, server: str, record: UsageRecord) -> None:
        """Record the tokens of a request to the server, now or within a slot. A failure is logged."""
        now = time.monotonic()
        with self._lock:
            found = self._server(server, now)
            if found.takes(record, now) and self._started():
                return
            records = self._take(found, now)
        self._send([records])

    def run_after(self, server: str, call: ScriptCall) -> Any:
        """Make the call, after that of the records of the server that are due. Return its answer.

        Raise TransientError if Redis does not answer.
        """
        now = time.monotonic()
        with self._lock:
            found = self._servers.get(server)
            records = [] if found is None or not found.records or now < found.due_at else self._take(found, now)
        if not records:
            return self._scripts.run(call.name, call.keys, *call.arguments)
        recorded, answer = self._scripts.run_all([self._call(records), call])
        _report(records, recorded)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def flush(self, server: str, seconds: float) -> bool:
        """Send the records of the server, and for these seconds each further one at once: tickets wait for tokens.

        After a window without another call, records are kept again. Return False if none was kept.
        """
        now = time.monotonic()
        seconds = min(seconds, self._window_ms / 1000)
        with self._lock:
            found = self._server(server, now)
            found.awaited_until = max(found.awaited_until, now + seconds)
            if not found.records:
                return False
            records = self._take(found, now)
        self._send([records])
        return True

    def _server(self, name: str, now: float) -> _Server:
        if name not in self._servers and len(self._servers) >= _MAX_IDLE_SERVERS:
            self._servers = {key: one for key, one in self._servers.items() if not one.is_idle(now)}
        return self._servers.setdefault(name, _Server())

    def _take(self, server: _Server, now: float) -> list[UsageRecord]:
        records, server.records, server.due_at = server.records, [], now + self._keep_seconds
        return records

    def _started(self) -> bool:
        """Start the thread that sends kept records, if none runs. Return False if there can be no further thread."""
        if self._running:
            return True
        try:
            threading.Thread(target=self._run, name="roboco-usage-records", daemon=False).start()
        except RuntimeError:
            return False
        self._running = True
        return True

    def _run(self) -> None:
        """Send the records that are due until none is kept."""
        while (wait := self._send_due()) is not None:
            time.sleep(wait)

    def _send_due(self) -> float | None:
        """Send the records that no admission took in time. Return the seconds until the next, or None without any."""
        now = time.monotonic()
        with self._lock:
            kept = [one for one in self._servers.values() if one.records]
            late = [self._take(one, now) for one in kept if now >= one.due_at + self._admission_seconds]
            self._running = bool(kept)
            next_at = min((one.due_at + self._admission_seconds for one in kept), default=now)
        try:
            self._send(late)
        except Exception:
            _log.exception("replies are not recorded for their rate limits")
        return max(0.0, next_at - time.monotonic()) if kept else None

    def _send(self, groups: Sequence[list[UsageRecord]]) -> None:
        """Send each group of records, all to one server, in one round trip to each node of Redis."""
        answers = self._scripts.run_all([self._call(records) for records in groups])
        for records, answer in zip(groups, answers, strict=True):
            _report(records, answer)

    def _call(self, records: Sequence[UsageRecord]) -> ScriptCall:
        records = list({record.admission: record for record in records}.values())
        limits = dict(usage for record in records for usage in record.usages)
        numbers = {key: number for number, key in enumerate(limits, 1)}
        now = time.monotonic()
        arguments: list[Any] = [len(records), self._window_ms, self._slot_ms]
        arguments += [limit or "" for limit in limits.values()]
        for record in records:
            first, second = (*(numbers[key] for key, _ in record.usages), 0)[:2]
            arguments += [record.tokens, int((now - record.sent_at) * 1000), first, second]
        return ScriptCall("rate_record", [*(record.admission for record in records), *limits], arguments)


def _report(records: Sequence[UsageRecord], answer: Any) -> None:
    """Log the failure of a call that should have recorded these."""
    if isinstance(answer, Exception):
        cause = None if isinstance(answer, TransientError) else answer
        text = "replies of model %s that are not recorded for its rate limit: %d; %s"
        _log.warning(text, records[0].model, len(records), answer, exc_info=cause)
