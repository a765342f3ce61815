"""retention: scan the workspace once a day, and request the removal of ended tasks that a rule has made due.

    page of folders ─► summaries ─► first rule that covers each ─► requests, spread over time ─► next position
    (any coordinator)  (8 reads     (due: delete)                  (the sweeper carries them     (compare-and-set)
                       at a time)                                   out, `erase.py`)

The position is in Redis, for all coordinators: one of them has a lock for some seconds. If it dies, another one repeats
the page, which requests nothing twice. If Redis loses the position, the scan begins anew. If the rules change, a scan
with the new ones begins, ten minutes after the last beginning at the earliest: coordinators whose rules differ would
else begin anew all the time. A task whose requests fail is left out until the next scan. A scan waits between its pages
until their removals are due, at REMOVALS_PER_SECOND, so that removals take a small part of the sweepers' time, and few
are pending.

What is removed depends on the time, so a coordinator whose clock differs from that of Redis removes nothing.

Cost of a scan: a listing for each 200 tasks, a read for each task, and eight requests for a task that is due. A
removed task is not read again.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace

from roboco.domain.canonical_json import sha256
from roboco.domain.paths import notify_marker_path
from roboco.domain.removal.erasure import ErasureRequest
from roboco.domain.removal.retention import due_rule
from roboco.domain.task_summary import TaskSummary
from roboco.engine.accept.request_erasure import request_erasure
from roboco.engine.engine import Engine
from roboco.engine.selected_tasks import select_page
from roboco.errors import TransientError, UsageError
from roboco.ports.task_index import RetentionScan

_log = logging.getLogger(__name__)

SCAN_INTERVAL = 86_400.0
"""Seconds from the beginning of a scan to that of the next one."""
PAGE_SIZE = 200
"""Task folders of a page."""
REMOVALS_PER_SECOND = 5.0
"""Tasks whose removal begins in a second, of all coordinators together."""
RULES_INTERVAL = 600.0
"""Seconds after the beginning of a scan before which no scan with other rules begins."""
MAX_CLOCK_SKEW = 300.0
"""Seconds by which the clocks of a coordinator and of Redis may differ."""
MAX_FAILED = 3
"""Tasks of a page whose requests may fail. With more, the server does not answer, and the page is repeated."""


def enforce_retention(engine: Engine, seconds: float) -> int:
    """Continue the scan for about these seconds. Return the number of tasks whose removal was requested.

    Return 0 if there are no rules, if another coordinator scans, or if no page is due. Raise TransientError if a server
    does not answer, or if the clocks differ: the next call repeats the page.
    """
    if not engine.policy.retention_rules:
        return 0
    _check_clock(engine)  # before the lock, which would else keep coordinators with a right clock away
    if not engine.tasks.task_index.lock_scan(RetentionScan, engine.new_token(), seconds):
        return 0
    scan, requested, end = _current_scan(engine), 0, engine.clock.now() + seconds
    while scan is not None and scan.finished is None and _is_page_due(scan, now := engine.clock.now()) and now < end:
        before = scan.due
        scan = _process_page(engine, scan)
        requested += 0 if scan is None else scan.due - before
    return requested


def _check_clock(engine: Engine) -> None:
    skew = engine.clock.now() - engine.tasks.schedule.time()
    if abs(skew) > MAX_CLOCK_SKEW:
        raise TransientError(
            f"the clock of this machine is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} that of Redis, so "
            "tasks could be removed too early; let both keep the time by NTP"
        )


def _is_page_due(scan: RetentionScan, now: float) -> bool:
    """Return True if the next page may be read. A time beyond the longest wait is one of a clock that was wrong."""
    return scan.next_page <= now or scan.next_page > now + PAGE_SIZE / REMOVALS_PER_SECOND + MAX_CLOCK_SKEW


def _current_scan(engine: Engine) -> RetentionScan | None:
    """Return the scan that runs or was the last one, a new one if it is time, or None if others scan by other rules."""
    known, now = engine.tasks.task_index.load_scan(RetentionScan), engine.clock.now()
    rules = sha256("\n".join(rule.text for rule in engine.policy.retention_rules))[:16]
    if known is not None and known.began <= now + MAX_CLOCK_SKEW:  # else it began by a clock that was wrong
        if known.rules != rules and now < known.began + RULES_INTERVAL:
            return None
        if known.rules == rules and (known.finished is None or now < known.began + SCAN_INTERVAL):
            return known
    begun = RetentionScan(uuid.uuid4().hex, rules, began=now)
    if not engine.tasks.task_index.save_scan(known, begun):
        return None
    changed = known is not None and known.rules != rules
    _log.info("retention: a scan begins%s", ", because the rules have changed" if changed else "")
    return begun


def _process_page(engine: Engine, scan: RetentionScan) -> RetentionScan | None:
    """Request the removals of a page. Return the position after it, or None if another coordinator has moved on."""
    rules, now = engine.policy.retention_rules, engine.now()
    try:
        page = select_page(engine.workspace, lambda task: due_rule(rules, task, now) is not None, scan.after, PAGE_SIZE)
    except UsageError:
        _log.warning("the workspace refuses the cursor of its folders; the retention's scan begins again")
        after = replace(scan, after="", tasks_read=0)
        return after if engine.tasks.task_index.save_scan(scan, after) else None
    requested = _request_removals(engine, page.tasks)
    after = replace(
        scan,
        after=page.cursor,
        tasks_read=scan.tasks_read + page.read,
        due=scan.due + requested,
        next_page=engine.clock.now() + requested / REMOVALS_PER_SECOND,
        finished=None if page.cursor else engine.clock.now(),
    )
    if not engine.tasks.task_index.save_scan(scan, after):
        return None
    if after.finished is not None:
        _log.info("retention: %d tasks were read, %d are removed", after.tasks_read, after.due)
    return after


def _request_removals(engine: Engine, tasks: Sequence[TaskSummary]) -> int:
    """Request the removals, spread over time. Return their number. Raise TransientError if too many fail."""
    requested = failed = 0
    for task in tasks:
        try:
            requested += _request_removal(engine, task, requested / REMOVALS_PER_SECOND)
        except TransientError as error:
            failed += 1
            if failed > MAX_FAILED:
                raise
            _log.warning("retention keeps task %s until the next scan: %s", task.task_id, error)
    return requested


def _request_removal(engine: Engine, task: TaskSummary, delay: float) -> bool:
    """Request the removal that is due. Return False if the task stays, because its receivers do not know its end."""
    rule = due_rule(engine.policy.retention_rules, task, engine.now())
    if rule is None or engine.workspace.files.size(notify_marker_path(task.task_id)) is not None:
        return False
    request = ErasureRequest(
        task_id=task.task_id,
        requested_at=engine.now(),
        by="retention",
        reason=rule.text[:500],
        forks="keep",
        keep_memory=True,
    )
    try:
        request_erasure(engine, request, delay)
    except UsageError as error:
        _log.warning("retention keeps task %s for now: %s", task.task_id, error)
        return False
    return True
