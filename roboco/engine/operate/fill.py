"""fill: enter the tasks of the workspace in the schedule, page by page, by all coordinators.

    markers, page by page ─► entries of the schedule ─► next position ─► ... ─► done ─► schedule counts as filled
    (claimed for a while)    (one request a shard)      (compare-and-set)              (if Redis still has the mark)

Redis may lose its last second or all of its data, and a task may be accepted while Redis does not answer. So the
coordinators fill the schedule every REFILL_INTERVAL seconds, and whenever Redis was emptied or restarted. They sweep
the known tasks meanwhile.

The position of the fill is in Redis. Any coordinator claims the next page. If it dies, the claim expires and another
coordinator repeats the page, which changes nothing, or repeats the recovery of some tasks. If a page arrives late, its
position is refused. If Redis loses the record, it has lost the mark too, and the next fill starts anew.

A shard that does not answer is skipped; a further round fills the missed shards. Until the fill is done, no task ends.

Cost in requests to the workspace: one LIST for each 1,000 markers. A recovery adds for each task one job, whose work
restores the inbox (one LIST), and the pass over the task, which rebuilds it.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from roboco.domain.ids import SHARDS, is_task_id, shard_of
from roboco.domain.paths import (
    ENTER_PREFIX,
    ERASE_PREFIX,
    ERASURES,
    NOTIFY_MARKERS,
    NOTIFY_PREFIX,
    OPEN_MARKERS,
    RESTART_PREFIX,
)
from roboco.engine.engine import Engine, TaskStores
from roboco.errors import TransientError
from roboco.ports.schedule import FillKind, FillPhase, FillPosition

_log = logging.getLogger(__name__)

REFILL_INTERVAL = 1800.0
"""Seconds between two fillings of the schedule from the workspace."""
PAGE_SIZE = 5000
"""Markers of a page. A folder is scanned once for each page; S3 needs a request for each 1,000 markers."""
CLAIM_SECONDS = 60.0
"""Seconds after which another coordinator repeats a page whose coordinator has not finished it."""
ROUND_DELAY = 5.0
"""Seconds until the shards that did not answer are filled again."""
HEAD_START = 10 * 365 * 86_400.0
"""Seconds by which the jobs of a recovery are overdue: they precede all passes, however long Redis was unused."""
FIRST_PHASE = {
    FillKind.REFILL: FillPhase.OPEN,
    FillKind.EMPTIED: FillPhase.OPEN,
    FillKind.RESTARTED: FillPhase.SCHEDULED,
}
NEXT_PHASE = {
    FillPhase.SCHEDULED: FillPhase.OPEN,
    FillPhase.OPEN: FillPhase.NOTIFY,
    FillPhase.NOTIFY: FillPhase.ERASE,
    FillPhase.ERASE: FillPhase.DONE,
}
FOLDERS = {FillPhase.OPEN: OPEN_MARKERS, FillPhase.NOTIFY: NOTIFY_MARKERS, FillPhase.ERASE: ERASURES}
JOBS = {FillPhase.NOTIFY: NOTIFY_PREFIX, FillPhase.ERASE: ERASE_PREFIX}
"""The prefix of the entries of markers that are no open tasks."""


@dataclass(frozen=True)
class FillStep:
    """The result of an attempt at the next page of a fill."""

    moved: bool
    """True if a page was processed: try the next one. False if there is none, or another coordinator has it."""
    blocks_passes: bool
    """True while the fill enters the known tasks of a restarted Redis: their logs start anew before any pass."""


def fill_page(engine: Engine) -> FillStep:
    """Process the next page of the fill, if the schedule needs one and no other coordinator has the page.

    Raise TransientError if Redis or the workspace does not answer; the page is tried again.
    """
    if (fill := _needed_fill(engine.tasks)) is None:
        return FillStep(moved=False, blocks_passes=False)
    mark, kind = fill
    first, token = FillPosition(kind, FIRST_PHASE[kind]), engine.new_token()
    claim = engine.tasks.schedule.claim_fill(mark, first, token, CLAIM_SECONDS)
    if not claim.is_granted:
        return FillStep(moved=False, blocks_passes=_blocks_passes(claim.position))
    if claim.position.phase is FillPhase.DONE:
        _finish(engine.tasks, mark, token)
        return FillStep(moved=True, blocks_passes=False)
    try:
        after = _process_page(engine, claim.position)
    except Exception:
        with suppress(TransientError):
            engine.tasks.schedule.advance_fill(token, claim.position)
        raise
    is_next_round = after == replace(first, shards=after.shards)
    engine.tasks.schedule.advance_fill(token, after, ROUND_DELAY if is_next_round else 0.0)
    return FillStep(moved=True, blocks_passes=_blocks_passes(after))


def _blocks_passes(position: FillPosition) -> bool:
    """Return True if no pass may start. A further round, for shards that did not answer, blocks no other shard."""
    return position.phase is FillPhase.SCHEDULED and len(position.shards) == SHARDS


def _needed_fill(tasks: TaskStores) -> tuple[str, FillKind] | None:
    """Return the mark and the kind of the fill that the schedule needs, or None if it needs none."""
    schedule = tasks.schedule
    if schedule.is_intact():
        if schedule.recently_filled():
            return None
        mark = schedule.mark_filling()
        return (mark, FillKind.REFILL) if schedule.is_intact() else None  # not: the next attempt recovers it
    mark = schedule.mark_filling()
    return mark, FillKind.RESTARTED if schedule.was_restarted() else FillKind.EMPTIED


def _finish(tasks: TaskStores, mark: str, token: str) -> None:
    """Record that the schedule is filled, unless Redis has lost the mark. Then remove the fill's record."""
    tasks.schedule.mark_filled(REFILL_INTERVAL, mark)
    tasks.schedule.finish_fill(token)
    _log.info("the schedule is filled from the workspace: %d open tasks", tasks.schedule.count())


def _process_page(engine: Engine, position: FillPosition) -> FillPosition:
    """Enter the page's tasks in the schedule. Return the next position."""
    if position.phase is FillPhase.SCHEDULED:
        after = _enter_scheduled(engine.tasks, position)
    else:
        after = _enter_marked(engine, position, FOLDERS[position.phase])
    if after.phase is FillPhase.DONE and after.missed:
        _log.warning("shards %s of the schedule do not answer and are filled again", sorted(after.missed))
        return FillPosition(position.kind, FIRST_PHASE[position.kind], shards=after.missed)
    return after


def _enter_scheduled(tasks: TaskStores, position: FillPosition) -> FillPosition:
    """Enter the known tasks of a page of a shard for new logs. The cursor is the shard's number and a cursor in it."""
    shards = sorted(position.shards - position.missed)
    number, cursor = map(int, position.cursor.split()) if position.cursor else (-1, 0)
    shard = next((one for one in shards if one >= number), None)
    if shard is None:
        return replace(position, phase=NEXT_PHASE[position.phase], cursor="")
    try:
        page = tasks.schedule.scan(shard, cursor if shard == number else 0)
        failed = tasks.schedule.enter([f"{RESTART_PREFIX}{one}" for one in page.task_ids], -HEAD_START)
    except TransientError as error:
        _log.warning("shard %d of the schedule does not answer: %s", shard, error)
        return replace(position, cursor=f"{shard + 1} 0", missed=position.missed | {shard})
    after = f"{shard} {page.cursor}" if page.cursor else f"{shard + 1} 0"
    return replace(position, cursor=after, missed=position.missed | failed)


def _enter_marked(engine: Engine, position: FillPosition, folder: str) -> FillPosition:
    """Enter the tasks of a page of markers in the shards of this round. Skip names that are not task ids."""
    names = engine.workspace.files.names_after(folder, position.cursor, PAGE_SIZE)
    if strays := [name for name in names if not is_task_id(name)]:
        _log.warning("skipped %d names below %s that are not task ids: %r", len(strays), folder, strays[:5])
    shards = position.shards - position.missed
    task_ids = [name for name in names if is_task_id(name) and shard_of(name) in shards]
    missed = position.missed | _enter(engine.tasks, position, task_ids)
    if len(names) < PAGE_SIZE:
        return replace(position, phase=NEXT_PHASE[position.phase], cursor="", missed=missed)
    return replace(position, cursor=names[-1], missed=missed)


def _enter(tasks: TaskStores, position: FillPosition, task_ids: Sequence[str]) -> frozenset[int]:
    """Enter the tasks, the delivery of their notifications, or their erasure. Return the shards that did not answer.

    The jobs of a recovery are entered first: a task whose job waits does not end.
    """
    if (prefix := JOBS.get(position.phase)) is not None:
        return tasks.schedule.enter([f"{prefix}{one}" for one in task_ids], replace=False)
    failed = frozenset[int]()
    if position.kind is not FillKind.REFILL:
        job = RESTART_PREFIX if position.kind is FillKind.RESTARTED else ENTER_PREFIX
        failed = tasks.schedule.enter([f"{job}{one}" for one in task_ids], -HEAD_START)
    return failed | tasks.schedule.enter(task_ids, replace=False)
