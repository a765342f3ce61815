"""retention: scan the workspace once a day, and request the removal of ended tasks that a rule has made due.

    page of folders ─► summaries ─► first rule that covers each ─► requests, spread over time ─► next position
    (any coordinator)  (8 reads     (due: archive or delete)       (the sweeper carries them     (compare-and-set)
                       at a time)                                   out, `erase.py`)

The position is in Redis, for all coordinators: one of them has a lock for some seconds. If it dies, another one repeats
the page, which requests nothing twice. If Redis loses the position, the scan begins anew. If the rules change, a scan
with the new ones begins at once. A scan waits between its pages until their removals are due, at REMOVALS_PER_SECOND,
so that removals take a small part of the sweepers' time, and few are pending if an archive does not answer.

Cost of a scan: a listing for each 200 tasks, and a read for each task. An archived or removed task is not read again.
"""

import logging
import uuid
from dataclasses import replace

from roboco.domain.canonical_json import sha256
from roboco.domain.removal.erasure import ErasureRequest
from roboco.domain.removal.retention import RetentionRule, due_rule
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine
from roboco.engine.intake.request_erasure import request_erasure
from roboco.engine.selected_tasks import select_page
from roboco.errors import UsageError
from roboco.ports.retention_progress import RetentionScan

_log = logging.getLogger(__name__)

SCAN_INTERVAL = 86_400.0
"""Seconds from the beginning of a scan to that of the next one."""
PAGE_SIZE = 200
"""Task folders of a page."""
REMOVALS_PER_SECOND = 5.0
"""Tasks whose removal begins in a second, of all coordinators together."""


def enforce_retention(engine: Engine, seconds: float) -> int:
    """Continue the scan for about these seconds. Return the number of tasks whose removal was requested.

    Return 0 if there are no rules, if another coordinator scans, or if no page is due. Raise TransientError if a server
    does not answer: the next call repeats the page.
    """
    if not engine.policy.retention_rules or not engine.retention_progress.lock(engine.new_token(), seconds):
        return 0
    scan, requested, end = _current_scan(engine), 0, engine.clock.now() + seconds
    while scan is not None and scan.finished is None and scan.next_page <= engine.clock.now() < end:
        before = scan.due
        scan = _process_page(engine, scan)
        requested += 0 if scan is None else scan.due - before
    return requested


def _current_scan(engine: Engine) -> RetentionScan | None:
    """Return the scan that runs, or a new one if it is time, or if the rules have changed."""
    known, rules = engine.retention_progress.load(), rules_digest(engine.policy.retention_rules)
    now = engine.clock.now()
    if known is not None and known.rules == rules and now < known.began + SCAN_INTERVAL:
        return known
    if known is not None and known.rules == rules and known.finished is None:
        return known  # it takes longer than the interval
    begun = RetentionScan(uuid.uuid4().hex, rules, began=now)
    return begun if engine.retention_progress.save(known, begun) else None


def rules_digest(rules: tuple[RetentionRule, ...]) -> str:
    """Return a digest of the rules, in their order."""
    return sha256("\n".join(rule.text for rule in rules))[:16]


def _process_page(engine: Engine, scan: RetentionScan) -> RetentionScan | None:
    """Request the removals of a page. Return the position after it, or None if another coordinator has moved on."""
    rules, now = engine.policy.retention_rules, engine.now()
    try:
        page = select_page(engine, lambda task: due_rule(rules, task, now) is not None, scan.after, PAGE_SIZE)
    except UsageError:
        _log.warning("the workspace refuses the cursor of its folders; the retention's scan begins again")
        after = replace(scan, after="", tasks_read=0)
        return after if engine.retention_progress.save(scan, after) else None
    requested = 0
    for task in page.tasks:
        requested += _request_removal(engine, task, requested / REMOVALS_PER_SECOND)
    after = replace(
        scan,
        after=page.cursor,
        tasks_read=scan.tasks_read + page.read,
        due=scan.due + requested,
        next_page=engine.clock.now() + requested / REMOVALS_PER_SECOND,
        finished=None if page.cursor else engine.clock.now(),
    )
    if not engine.retention_progress.save(scan, after):
        return None
    if after.finished is not None:
        _log.info("retention: %d tasks were read, %d are archived or removed", after.tasks_read, after.due)
    return after


def _request_removal(engine: Engine, task: TaskSummary, delay: float) -> bool:
    """Request the removal that is due. Return False if the task stays, because it is not closed yet."""
    rule = due_rule(engine.policy.retention_rules, task, engine.now())
    if rule is None:
        return False
    request = ErasureRequest(
        task_id=task.task_id,
        requested_at=engine.now(),
        by="retention",
        reason=rule.text[:500],
        forks="keep",
        archive=rule.archive,
        storage_class=rule.storage_class,
    )
    try:
        request_erasure(engine, request, delay)
    except UsageError as error:
        _log.warning("retention keeps task %s for now: %s", task.task_id, error)
        return False
    return True
