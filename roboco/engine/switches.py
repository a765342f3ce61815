"""switches: what operators have switched off, as this process knows it, and its changes.

    operator ─► workspace (replace: the record, which survives Redis) ─► Redis (the copy, by revision)
    worker, each 0.5 s while it has work ─► Redis ─► this process's copy ─► turn or call: runs, or waits
                                              └── lost: the record, until a coordinator stores the copy again

A lost copy is never taken for "nothing is switched off": Redis holds a copy also if nothing is. Coordinators store it
every few seconds, because Redis may have been emptied or have restored an old copy, and a client may have died between
the two writes. Until then a process that knows newer switches than an old copy has, as after a failover, reads the
record. A revision is a time in milliseconds and at least one more than the one before, so that a change counts also
after the workspace was restored from a backup. If Redis does not answer, or its copy cannot be read, the record counts;
if that cannot be read either, the last known switches do. A process that knows none runs nothing until then.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from roboco.domain.paths import SWITCHES_FILE
from roboco.domain.switch import Switch, SwitchableWork, Switches, check_reason, check_target
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.clock import Clock
from roboco.ports.refusals import MissingRight
from roboco.ports.registry import WorkerRegistry
from roboco.ports.workspace import Files

_log = logging.getLogger(__name__)

MAX_AGE: Final = 0.5
"""Seconds for which a process relies on the switches that it has read. Its turns and calls share one read."""
RECORD_AGE: Final = 5.0
"""The same while Redis does not return them, and the record is read instead."""
MAX_TRIES: Final = 8
"""Attempts to replace the record while other processes change it."""


class SwitchBoard:
    """The switches of a deployment. Threads share it: at worst two of them read."""

    def __init__(self, files: Files, cache: WorkerRegistry, clock: Clock) -> None:
        self._files = files
        self._cache = cache
        self._clock = clock
        self._known: Switches | None = None
        self._reread_at = 0.0
        self._lock = threading.RLock()  # a thread that a signal interrupts during its read may read again

    def current(self) -> Switches:
        """Return the switches, at most MAX_AGE seconds old. Cost: one command to Redis in that time.

        Raise TransientError if neither Redis nor the workspace has ever returned them.
        """
        known = self._known
        if known is None:
            with self._lock:  # the threads that wait here share the read of the first one
                return self._fresh() or self._reread()
        if self._fresh() or not self._lock.acquire(blocking=False):
            return known  # another thread reads them
        try:
            return self._reread()
        finally:
            self._lock.release()

    def blocking(self, work: SwitchableWork) -> Switch | None:
        """Return the switch that holds the turn or call back, or None if it may run."""
        return self.current().blocking(work)

    def stored(self) -> Switches:
        """Return the switches of the record. Cost: one read of the workspace."""
        stored = self._files.get(SWITCHES_FILE)
        return Switches() if stored is None else _decoded(stored)

    def switch_off(self, target: str, reason: str, interrupt: bool, by: str | None, now: datetime) -> Switch:
        """Switch the target off, and return the switch. It replaces an earlier one of the target.

        Raise UsageError if an argument is wrong. After a TransientError the switch may be recorded: repeat the call.
        """
        switch = Switch(target=check_target(target), reason=check_reason(reason), since=now, interrupt=interrupt, by=by)
        self._change(lambda switches: switches.with_off(switch, self._revision(switches)))
        return switch

    def switch_on(self, target: str) -> Switch | None:
        """Switch the target on. Return the switch that it had, or None if it was not switched off."""
        target = check_target(target)
        return self._change(
            lambda before: before.with_on(target, self._revision(before)) if before.find(target) else None
        ).find(target)

    def repair(self) -> None:
        """Store the record's copy in Redis if Redis lacks it or has an older one. Cost: one read of the workspace."""
        self._publish(self.stored())

    def _change(self, change: Callable[[Switches], Switches | None]) -> Switches:
        """Replace the record and its copy. `change` returns None if nothing has to change."""
        for _ in range(MAX_TRIES):
            stored = self._files.get_versioned(SWITCHES_FILE)
            before = Switches() if stored is None else _decoded(stored.data)
            after = change(before)
            if after is None:
                self._publish(before)  # the earlier change may have missed Redis
                return before
            try:
                self._publish(before)
            except MissingRight:  # such a user of Redis is refused before anything changes
                raise
            except TransientError as error:
                _log.debug("Redis is away, and the record counts: %s", error)
            if self._files.replace(SWITCHES_FILE, _encoded(after), None if stored is None else stored.version):
                self._publish(after)
                return before
        raise TransientError("other processes change the switches at the same time; try it again")

    def _fresh(self) -> Switches | None:
        """Return the known switches, or None if they have to be read."""
        return self._known if self._clock.now() < self._reread_at else None

    def _reread(self) -> Switches:
        known = self._known
        copy = self._read_copy(0 if known is None else known.revision)
        self._known = self._read_record(known) if copy is None else copy
        self._reread_at = self._clock.now() + (RECORD_AGE if copy is None else MAX_AGE)
        return self._known

    def _read_copy(self, revision: int) -> Switches | None:
        """Return the copy in Redis, or None if the record has to be read, since it is lost, broken or an older one."""
        try:
            text = self._cache.switches()
            copy = None if text is None else _decoded(text.encode())
        except (TransientError, CorruptHistory) as error:
            _log.warning("the switches are read from the workspace: %s", error)
            return None
        return None if copy is None or copy.revision < revision else copy

    def _read_record(self, known: Switches | None) -> Switches:
        try:
            return self.stored()
        except (TransientError, CorruptHistory) as error:
            if known is None:  # nothing may run; a broken record is no reason to give up tasks
                raise TransientError(str(error)) from error
            _log.warning("the switches cannot be read, and the last known ones count: %s", error)
            return known

    def _revision(self, before: Switches) -> int:
        return max(before.revision + 1, round(self._clock.now() * 1000))

    def _publish(self, switches: Switches) -> None:
        self._cache.put_switches(_encoded(switches).decode(), switches.revision)


def _encoded(switches: Switches) -> bytes:
    return switches.model_dump_json().encode()


def _decoded(stored: bytes) -> Switches:
    try:
        return Switches.model_validate_json(stored)
    except ValidationError as error:
        raise CorruptHistory(
            f"the switches cannot be read: {error.errors()[0]['msg']}. Restore {SWITCHES_FILE} of the workspace from a "
            "backup, or from the key `switches` in Redis. Without both, everything that was switched off would begin: "
            "stop the workers, move the file and the key away, switch things off again, and start the workers"
        ) from error
