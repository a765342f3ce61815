"""erase: carry out a request to erase a task, as a job of the sweeper.

    receipt ─► stop? ─► sub-tasks, forks ─► counts ─► archive? ─► Redis, index, letters ─► files ─► markers ─► done
    (create)   (item)   (their requests)    (replace) (tar)       (fence is gone)          (pages)             (replace)

The receipt is written first. From then on nothing accepts anything for the task, and each later step may be repeated:
if the coordinator dies, or a server does not answer, the job is due again and continues with the first step that the
receipt does not show. What is counted is counted before it is removed. Redis is cleared before the files, so that no
worker has a fence with which it could write steps; a file that a late worker stores nevertheless is removed by later
checks, after a minute, an hour and a day.

Sub-tasks are erased with their task: they exist for it alone. Forks are tasks of others; the request decides.

Cost in requests to the workspace, beside those for the files themselves: about 25, and six for each check. A job
removes at most 20,000 files before it lets other work of the shard go first.
"""

import logging
from collections import Counter

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import sha256
from roboco.domain.history.step import parse_step
from roboco.domain.ids import sub_task_id
from roboco.domain.inbox.item import Stop
from roboco.domain.paths import (
    ENTER_PREFIX,
    ERASE_PREFIX,
    NOTIFY_PREFIX,
    RESTART_PREFIX,
    RESUME_PREFIX,
    erasure_path,
    forks_path,
    notify_marker_path,
    open_marker_path,
    summary_path,
    task_folder,
    tombstone_path,
)
from roboco.domain.removal.erasure import MAX_LISTED, ErasureReceipt, ErasureRequest, concerns
from roboco.engine.attempt_counts import reset_attempts
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import accept_item
from roboco.engine.intake.request_erasure import pending_receipt, request_erasure
from roboco.engine.record.task_tar import archive_task
from roboco.engine.tombstones import parse_receipt
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.dead_letters import DeadLetterPage
from roboco.ports.lease_renewals import AttemptLease

_log = logging.getLogger(__name__)

STOP_TIMEOUT = 300.0
"""Seconds that a stopped task has to end and to deliver its notifications. After them it is erased nevertheless."""
STOP_INTERVAL = 2.0
"""Seconds between two checks whether a stopped task has ended."""
LATE_CHECKS = (60.0, 3600.0, 86_400.0)
"""Seconds after the erasure at which late files are removed. No worker or client writes later than a day."""
REFUSAL = 2 * 86_400
"""Seconds for which Redis refuses to create the task. They exceed those of the last check."""
BUSY_DELAY = 5.0
"""Seconds until the next attempt, while another coordinator carries out the same request."""
GIVEN_UP_DELAY = 3600.0
"""Seconds until the next attempt after the job has killed its coordinator several times."""
PAGE_SIZE = 1000
MAX_PAGES = 20
"""Pages of files that one job removes."""


def erase_task(engine: Engine, task_id: str) -> None:
    """Carry out the request to erase the task, as far as possible now, and schedule the rest."""
    key, entry = f"erase:{task_id}", f"{ERASE_PREFIX}{task_id}"
    lost = engine.attempts.start(key)
    if lost is None:  # another coordinator has it, or died in it a moment ago
        engine.schedule.set(entry, BUSY_DELAY)
        return
    if lost >= engine.policy.max_attempts:
        engine.attempts.finish(key)
        engine.schedule.set(entry, GIVEN_UP_DELAY)
        _log.error("erasing task %s has killed %d coordinators; it is tried again in an hour", task_id, lost)
        return
    with engine.heartbeat.renewing(AttemptLease(key)):
        try:
            delay = _carry_out(engine, task_id)
        except Exception:
            engine.attempts.finish(key)
            raise
    engine.attempts.finish(key)
    if delay is not None:
        engine.schedule.set(entry, delay)


def _carry_out(engine: Engine, task_id: str) -> float | None:
    """Continue the erasure. Return the seconds until the next step, or None if nothing is left."""
    data = engine.files.get(erasure_path(task_id))
    if data is None:
        return None
    request = ErasureRequest.model_validate_json(data)
    if _was_retried(engine, request):
        engine.files.delete(erasure_path(task_id))
        _log.warning("task %s is not erased: it was retried after the request, which did not allow to stop it", task_id)
        return None
    receipt = _Receipt.open(engine, request)
    if receipt.now.finished_at is None:
        if not _has_ended(engine, request):
            return STOP_INTERVAL
        if not _remove(engine, request, receipt):
            return 0.0
    return _check_late_files(engine, request, receipt.now)


def _was_retried(engine: Engine, request: ErasureRequest) -> bool:
    """Return True if the task is open again, and its erasure has not begun."""
    if request.stop or engine.files.get(open_marker_path(request.task_id)) is None:
        return False
    return engine.files.size(tombstone_path(request.task_id)) is None


class _Receipt:
    """The stored receipt, which this job replaces only while no other has."""

    def __init__(self, engine: Engine, now: ErasureReceipt, version: str | None) -> None:
        self._engine = engine
        self._version = version
        self.now = now

    @classmethod
    def open(cls, engine: Engine, request: ErasureRequest) -> "_Receipt":
        """Return the receipt of the request, stored if there is none."""
        stored = engine.files.get_versioned(tombstone_path(request.task_id))
        known = None if stored is None else parse_receipt(stored.data)
        found = cls(engine, known or pending_receipt(request), None if stored is None else stored.version)
        if known is None:
            found.update()
        elif known.status == "archived" and not request.archive:  # the archived file goes, too
            found.now = pending_receipt(request).model_copy(
                update={"archive": known.archive, "files": 0, "sub_tasks": known.sub_tasks, "forks": known.forks}
            )
            found.update()
        return found

    def update(self, **fields: object) -> None:
        """Store the receipt with these fields. Raise TransientError if another coordinator has changed it."""
        changed = self.now.model_copy(update=fields)
        path, data = tombstone_path(self.now.task_id), changed.model_dump_json().encode()
        if not self._engine.files.replace(path, data, self._version):
            raise TransientError(f"another coordinator erases task {self.now.task_id!r}; this one tries again later")
        stored = self._engine.files.get_versioned(path)
        self.now, self._version = changed, None if stored is None else stored.version


def _has_ended(engine: Engine, request: ErasureRequest) -> bool:
    """Return True if the task has ended and its receivers know, or if it had the time for that. Else stop it.

    Without `stop` the task had ended when the request was accepted: a marker is that of a client that was late.
    """
    task_id = request.task_id
    if not request.stop or (engine.now() - request.requested_at).total_seconds() >= STOP_TIMEOUT:
        return True
    if engine.files.get(open_marker_path(task_id)) is None:
        return engine.files.get(notify_marker_path(task_id)) is None
    item = Stop(
        item_id=f"stop-{sha256(task_id)[:32]}", created_at=engine.now(), reason="the task is erased", by=request.by
    )
    try:
        accept_item(engine, task_id, item, enforce_capacity=False)
    except UsageError as error:  # it has ended since
        _log.info("task %s is not stopped before it is erased: %s", task_id, error)
    return False


def _remove(engine: Engine, request: ErasureRequest, receipt: _Receipt) -> bool:
    """Remove the task. Return False if files are left for the next job."""
    task_id = request.task_id
    if receipt.now.files is None:
        receipt.update(**_inventory(engine, request))
    if request.archive and not receipt.now.archive:
        receipt.update(**archive_task(engine, request))
    _forget(engine, task_id)
    for _ in range(MAX_PAGES):
        if not engine.files.delete_tree(task_folder(task_id), PAGE_SIZE):
            break
    else:
        return False
    engine.files.delete(open_marker_path(task_id))
    engine.files.delete(notify_marker_path(task_id))
    problem = receipt.now.problem
    if receipt.now.archive and not request.archive:
        problem = _remove_archive(engine, receipt.now) or problem
    receipt.update(status="archived" if request.archive else "erased", finished_at=engine.now(), problem=problem)
    _log.info("task %s is %s: %s files", task_id, receipt.now.status, receipt.now.files)
    return True


def _inventory(engine: Engine, request: ErasureRequest) -> dict[str, object]:
    """Request the erasure of sub-tasks, and of forks if that is chosen. Return the counts for the receipt."""
    task_id, problem = request.task_id, ""
    kinds, size = Counter[str](), 0
    for file in engine.files.tree(task_folder(task_id)):
        kinds[file.path.split("/")[1].partition(".")[0]] += 1
        size += file.size
    sub_tasks = list[str]()
    try:
        sub_tasks = _request_sub_tasks(engine, request)
    except CorruptHistory as error:
        problem = f"sub-tasks may remain, because the history cannot be read: {error}"
    forks = _names(engine, forks_path(task_id))
    for fork in forks if request.forks == "erase" else ():
        _request_other(engine, request, fork)
    return {
        "files": kinds.total(),
        "bytes": size,
        "kinds": dict(sorted(kinds.items())),
        "dead_letters": len(_letters(engine, task_id)),
        "sub_tasks": sub_tasks[:MAX_LISTED],
        "forks": forks[:MAX_LISTED],
        "problem": problem,
    }


def _request_sub_tasks(engine: Engine, request: ErasureRequest) -> list[str]:
    """Request the erasure of each sub-task. Only lines that may delegate are parsed. Cost: a request for each call."""
    found = []
    for line in engine.histories.lines(request.task_id):
        if f'"{DELEGATE}"'.encode() not in line:
            continue
        for call in parse_step(line).calls:
            child = sub_task_id(request.task_id, call.id)
            if call.tool_name == DELEGATE and engine.files.size(summary_path(child)) is not None:
                _request_other(engine, request, child)
                found.append(child)
    return found


def _request_other(engine: Engine, request: ErasureRequest, task_id: str) -> None:
    fields = {"task_id": task_id, "requested_at": engine.now(), "stop": True}
    other = request.model_copy(update=fields | ({"forks": "keep"} if request.forks == "refuse" else {}))
    try:
        request_erasure(engine, other)
    except UsageError as error:  # it never existed, or was removed by hand
        _log.info("task %s, a part of task %s, is not erased: %s", task_id, request.task_id, error)


def _forget(engine: Engine, task_id: str) -> None:
    """Remove the task from Redis: state, logs, schedule, index, attempts and dead letters."""
    engine.task_store.erase(task_id, REFUSAL)
    for prefix in ("", NOTIFY_PREFIX, RESTART_PREFIX, ENTER_PREFIX, RESUME_PREFIX):
        engine.schedule.remove(f"{prefix}{task_id}")
    engine.task_index.remove(task_id)
    reset_attempts(engine, task_id)
    for letter_id in _letters(engine, task_id):
        engine.dead_letters.remove(letter_id)


def _letters(engine: Engine, task_id: str) -> list[str]:
    """Return the ids of the dead letters that concern the task. Cost: the letters, 1,000 at most."""
    found = list[str]()
    page = DeadLetterPage([], "")
    while True:
        page = engine.dead_letters.page(100, page.cursor)
        found += (letter.letter_id for letter in page.letters if concerns(letter, task_id))
        if not page.cursor:
            return found


def _remove_archive(engine: Engine, receipt: ErasureReceipt) -> str:
    """Remove the archived file. Return "", or why it remains."""
    address, _, name = receipt.archive.rpartition("/")
    try:
        engine.archives.delete(address, name)
    except UsageError as error:
        return str(error)
    return ""


def _check_late_files(engine: Engine, request: ErasureRequest, receipt: ErasureReceipt) -> float | None:
    """Remove what arrived since the erasure. Return the seconds until the next check, or None after the last one."""
    task_id = request.task_id
    began = max(request.requested_at, receipt.finished_at or request.requested_at)
    elapsed = (engine.now() - began).total_seconds()
    if elapsed >= LATE_CHECKS[0] or request.requested_at >= (receipt.finished_at or request.requested_at):
        _forget(engine, task_id)
        engine.files.delete(open_marker_path(task_id))
        engine.files.delete(notify_marker_path(task_id))
        if late := engine.files.delete_tree(task_folder(task_id), PAGE_SIZE):
            _log.warning("%d files arrived after task %s was erased, and are removed", late, task_id)
            return 0.0 if late == PAGE_SIZE else LATE_CHECKS[0]
    following = next((seconds for seconds in LATE_CHECKS if seconds > elapsed), None)
    if following is not None:
        return following - elapsed
    engine.files.delete(erasure_path(task_id))
    return None


def _names(engine: Engine, folder: str) -> list[str]:
    found = page = engine.files.names_after(folder, "", PAGE_SIZE)
    while len(page) == PAGE_SIZE:
        page = engine.files.names_after(folder, page[-1], PAGE_SIZE)
        found = [*found, *page]
    return found
