"""erase: carry out a request to erase a task, as a job of the sweeper.

    closed? ─► receipt ─► stop? ─► sub-tasks, forks ─► counts ─► memory ─► Redis, index, letters ─► files ─► done
               (create)   (item)   (their requests)    (replace) (replace) (fence is gone)          (pages)  (replace)

The receipt is written first. From then on nothing accepts anything for the task, and each later step may be repeated:
if the coordinator dies, or a server does not answer, the job is due again and continues with the first step that the
receipt does not show. What is counted is counted before it is removed. Redis is cleared before the files, so that no
worker has a fence with which it could write steps; a file that a late worker stores nevertheless is removed by later
checks, after a minute, an hour and a day.

Sub-tasks are erased with their task: they exist for it alone. Forks are tasks of others; the request decides.

Cost in requests to the workspace, beside those for the files themselves: about 25, and six for each check. The dead
letters are read at the first and at the last check. A job removes at most 20,000 files before it lets other work of the
shard go first, and a process carries out PARALLEL_ERASURES at the same time, so that the other lanes of its sweeper
stay free.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import sha256
from roboco.domain.history.step import parse_step
from roboco.domain.ids import sub_task_id
from roboco.domain.inbox.item import Stop
from roboco.domain.paths import (
    ENTER_PREFIX,
    ERASE_PREFIX,
    NOTIFY_PREFIX,
    OPENED,
    RESTART_PREFIX,
    RESUME_PREFIX,
    erasure_path,
    fork_name_path,
    forks_path,
    notify_marker_path,
    open_marker_path,
    task_folder,
    tombstone_path,
)
from roboco.domain.removal.erasure import MAX_LISTED, ErasureReceipt, ErasureRequest, concerns
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.accept.request_erasure import pending_receipt, request_erasure
from roboco.engine.engine import Engine, TaskStores, WorkspaceRecords, reset_attempts
from roboco.engine.record.task_memory import forget_entries, memory_of, remembered_by
from roboco.engine.workspace_records import is_erased, parse_receipt, parse_request
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.dead_letters import DeadLetterPage
from roboco.ports.lease_renewals import AttemptLease


class StoredReceipt:
    """The stored receipt, which this job replaces only while no other has."""

    def __init__(self, engine: Engine, now: ErasureReceipt, version: str | None) -> None:
        self._engine = engine
        self._version = version
        self.now = now

    @classmethod
    def open(cls, engine: Engine, request: ErasureRequest) -> "StoredReceipt":
        """Return the receipt of the request, stored if there is none. A later request may have replaced the first."""
        stored = engine.workspace.files.get_versioned(tombstone_path(request.task_id))
        known = None if stored is None else parse_receipt(stored.data)
        found = cls(engine, known or pending_receipt(request), None if stored is None else stored.version)
        if known is None:
            found.update()
        elif known.status == "erasing" and _origin(known) != _origin(pending_receipt(request)):
            _request_listed_parts(engine, request, known)
            found.update(**_origin(pending_receipt(request)))
        return found

    def update(self, **fields: object) -> None:
        """Store the receipt with these fields. Raise TransientError if another coordinator has changed it."""
        changed = self.now.model_copy(update=fields)
        path, data = tombstone_path(self.now.task_id), changed.model_dump_json().encode()
        if not self._engine.workspace.files.replace(path, data, self._version):
            raise TransientError(f"another coordinator erases task {self.now.task_id!r}; this one tries again later")
        stored = self._engine.workspace.files.get_versioned(path)
        self.now, self._version = changed, None if stored is None else stored.version


def _origin(receipt: ErasureReceipt) -> dict[str, object]:
    return {"by": receipt.by, "reason": receipt.reason, "forks_erased": receipt.forks_erased}


_log = logging.getLogger(__name__)

STOP_TIMEOUT = 300.0
"""Seconds that a task has to end and to deliver its notifications. After them it is erased nevertheless."""
STOP_INTERVAL = 2.0
"""Seconds between the first checks whether a task has ended. They grow with the time for which it has not."""
LATE_CHECKS = (60.0, 3600.0, 86_400.0)
"""Seconds after the erasure at which late files are removed. No worker or client writes later than a day."""
REFUSAL = 2 * 86_400
"""Seconds for which Redis refuses to create the task. They exceed those of the last check."""
BUSY_DELAY = 5.0
"""Seconds until the next attempt, while another coordinator carries out the same request."""
FULL_DELAY = 30.0
"""Seconds until the next attempt, while this process carries out enough other ones."""
GIVEN_UP_DELAY = 3600.0
"""Seconds until the next attempt after the job has killed its coordinator several times."""
MAX_CLOCK_SKEW = 60.0
"""Seconds by which a request may be of the future. Of a later one, the client's clock is wrong."""
PAGE_SIZE = 1000
"""Files, or names of forks, that are removed or read at a time."""
MAX_PAGES = 20
"""Pages of files that one job removes."""


def erase_task(engine: Engine, task_id: str) -> None:
    """Carry out the request to erase the task, as far as possible now, and schedule the rest."""
    if not engine.process.erasure_slots.acquire(blocking=False):
        engine.tasks.schedule.set(f"{ERASE_PREFIX}{task_id}", FULL_DELAY)
        return
    try:
        _attempt(engine, task_id)
    finally:
        engine.process.erasure_slots.release()


def _attempt(engine: Engine, task_id: str) -> None:
    key, entry = f"erase:{task_id}", f"{ERASE_PREFIX}{task_id}"
    lost = engine.tasks.leases.start_attempt(key)
    if lost is None:  # another coordinator has it, or died in it a moment ago
        engine.tasks.schedule.set(entry, BUSY_DELAY)
        return
    if lost >= engine.policy.max_attempts:
        engine.tasks.leases.finish_attempts(key)
        engine.tasks.schedule.set(entry, GIVEN_UP_DELAY)
        _log.error("erasing task %s has killed %d coordinators; it is tried again in an hour", task_id, lost)
        return
    with engine.process.heartbeat.renewing(AttemptLease(key)):
        try:
            delay = _carry_out(engine, task_id)
        except Exception:
            engine.tasks.leases.finish_attempts(key)
            raise
    engine.tasks.leases.finish_attempts(key)
    if delay is not None:
        engine.tasks.schedule.set(entry, delay)


def _carry_out(engine: Engine, task_id: str) -> float | None:
    """Continue the erasure. Return the seconds until the next step, or None if nothing is left."""
    request = _request_of(engine, task_id)
    if request is None:
        return None
    receipt = StoredReceipt.open(engine, request)  # it shows the first step that is missing
    if receipt.now.finished_at is None:
        if not _has_ended(engine, request):
            return _pause(engine, request)
        if receipt.now.files is None:
            receipt.update(**_take_inventory(engine, request))
        if not request.keep_memory:
            _forget_entries(engine, receipt)
        if not _remove(engine, request.task_id, receipt):
            return 0.0
    return _check_late_files(engine, request, receipt)


def _request_of(engine: Engine, task_id: str) -> ErasureRequest | None:
    """Return the stored request. If the clock of its client is ahead, replace its time by that of this coordinator."""
    stored = engine.workspace.files.get_versioned(erasure_path(task_id))
    if stored is None:
        return None
    request = parse_request(stored.data)
    if request is None:
        raise CorruptHistory(f"{erasure_path(task_id)!r} cannot be read; run roboco erase {task_id} again")
    if (request.requested_at - engine.now()).total_seconds() > MAX_CLOCK_SKEW:
        request = request.model_copy(update={"requested_at": engine.now()})
        engine.workspace.files.replace(erasure_path(task_id), request.model_dump_json().encode(), stored.version)
    return request


def _elapsed(engine: Engine, request: ErasureRequest) -> float:
    return (engine.now() - request.requested_at).total_seconds()


def _pause(engine: Engine, request: ErasureRequest) -> float:
    """Return the seconds until the next check of a task that has not ended: some 40 checks in five minutes."""
    return min(max(STOP_INTERVAL, _elapsed(engine, request) / 10), GIVEN_UP_DELAY)


def _has_ended(engine: Engine, request: ErasureRequest) -> bool:
    """Return True if the task has ended and its receivers know, or if it had the time for that. Else stop it.

    Without `stop` an open marker is that of a client that was late.
    """
    task_id = request.task_id
    if _elapsed(engine, request) >= STOP_TIMEOUT:
        return True
    marker = engine.workspace.files.get(open_marker_path(task_id))
    if marker is None or (marker == OPENED and not request.stop):
        return engine.workspace.files.get(notify_marker_path(task_id)) is None
    if marker == OPENED:
        item_id, why = f"stop-{sha256(task_id)[:32]}", "the task is erased"
        item = Stop(item_id=item_id, created_at=engine.now(), reason=why, by=request.by)
        try:
            accept_item(engine, task_id, item, enforce_capacity=False)
        except UsageError as error:  # it has ended since
            _log.info("task %s is not stopped before it is erased: %s", task_id, error)
    return False


def _remove(engine: Engine, task_id: str, receipt: StoredReceipt) -> bool:
    """Remove the task. Return False if files are left for the next job."""
    _forget(engine.tasks, task_id)
    _remove_letters(engine.tasks, task_id)
    _remove_fork_name(engine.workspace, task_id)
    for _ in range(MAX_PAGES):
        if not engine.workspace.files.delete_tree(task_folder(task_id), PAGE_SIZE):
            break
    else:
        return False
    engine.workspace.files.delete(open_marker_path(task_id))
    engine.workspace.files.delete(notify_marker_path(task_id))
    receipt.update(status="erased", finished_at=engine.now())
    _log.info("task %s is erased: %s files", task_id, receipt.now.files)
    return True


def _forget(tasks: TaskStores, task_id: str) -> None:
    """Remove the task from Redis: state, logs, schedule, index and attempts."""
    tasks.task_store.erase(task_id, REFUSAL)
    for prefix in ("", NOTIFY_PREFIX, RESTART_PREFIX, ENTER_PREFIX, RESUME_PREFIX):
        tasks.schedule.remove(f"{prefix}{task_id}")
    tasks.task_index.remove(task_id)
    reset_attempts(tasks, task_id)


def _remove_fork_name(workspace: WorkspaceRecords, task_id: str) -> None:
    """Remove the name of the task from the folder of its source, if it is a fork."""
    with suppress(CorruptHistory):  # then an erasure of the source skips the name, because its task has a receipt
        if (fork := workspace.frozen_teams.fork_of(task_id)) is not None:
            workspace.files.delete(fork_name_path(fork.task_id, task_id))


def _forget_entries(engine: Engine, receipt: StoredReceipt) -> None:
    """Remove what the task remembered. If its memory cannot be read, the receipt says so, and the rest is erased."""
    try:
        forget_entries(engine.workspace, receipt.now.memory, receipt.now.task_id)
    except CorruptHistory as error:
        if str(error) not in receipt.now.problem:
            problems = receipt.now.problem, f"remembered entries remain: {error}"
            receipt.update(problem="; ".join(filter(None, problems)))


def _remove_letters(tasks: TaskStores, task_id: str) -> None:
    for letter_id in _letters_of(tasks, task_id):
        tasks.dead_letters.remove(letter_id)


def _check_late_files(engine: Engine, request: ErasureRequest, receipt: StoredReceipt) -> float | None:
    """Remove what arrived since the erasure. Return the seconds until the next check, or None after the last one."""
    task_id, finished = request.task_id, receipt.now.finished_at or request.requested_at
    began = max(request.requested_at, finished)
    elapsed = (engine.now() - began).total_seconds()
    if elapsed >= LATE_CHECKS[0] and not request.keep_memory:
        _forget_entries(engine, receipt)
    if elapsed >= LATE_CHECKS[0] or request.requested_at >= finished:
        _forget(engine.tasks, task_id)
        engine.workspace.files.delete(open_marker_path(task_id))
        engine.workspace.files.delete(notify_marker_path(task_id))
        if late := engine.workspace.files.delete_tree(task_folder(task_id), PAGE_SIZE):
            _log.warning("%d files arrived after task %s was erased, and are removed", late, task_id)
            return 0.0 if late == PAGE_SIZE else LATE_CHECKS[0]
    following = next((seconds for seconds in LATE_CHECKS if seconds > elapsed), None)
    if following is not None:
        return following - elapsed
    _remove_letters(engine.tasks, task_id)
    engine.workspace.files.delete(erasure_path(task_id))
    return None


def _take_inventory(engine: Engine, request: ErasureRequest) -> dict[str, object]:
    """Request the erasure of sub-tasks, and of forks if that is chosen. Return the counts for the receipt."""
    task_id, problem = request.task_id, ""
    kinds, size = Counter[str](), 0
    for file in engine.workspace.files.tree(task_folder(task_id)):
        kinds[file.path.split("/")[1].partition(".")[0]] += 1
        size += file.size
    sub_tasks, memory, remembered = list[str](), "", 0
    try:
        memory = memory_of(engine.workspace, task_id)
        for child in _sub_tasks(engine.workspace, task_id):
            _request_other(engine, request, child)
            sub_tasks.append(child)
        remembered = len(remembered_by(engine.workspace, memory, task_id).entries)
    except CorruptHistory as error:
        problem = f"sub-tasks and remembered entries may remain, because a record cannot be read: {error}"
    names = _names_below(engine.workspace, forks_path(task_id))
    forks = [fork for fork in names if not is_erased(engine.workspace.files, fork)]
    for fork in forks if request.forks == "erase" else ():
        _request_other(engine, request, fork)
    if len(sub_tasks) > MAX_LISTED or len(forks) > MAX_LISTED:
        problem = f"{len(sub_tasks)} sub-tasks and {len(forks)} forks; this receipt lists {MAX_LISTED} of each at most"
    return {
        "files": kinds.total(),
        "bytes": size,
        "kinds": dict(sorted(kinds.items())),
        "dead_letters": len(_letters_of(engine.tasks, task_id)),
        "sub_tasks": sub_tasks[:MAX_LISTED],
        "forks": forks[:MAX_LISTED],
        "memory": memory,
        "remembered": remembered,
        "problem": problem,
    }


def _request_listed_parts(engine: Engine, request: ErasureRequest, receipt: ErasureReceipt) -> None:
    """Request the erasure of the parts that an earlier receipt lists: the task's files may be gone."""
    for part in (*receipt.sub_tasks, *(receipt.forks if request.forks == "erase" else ())):
        _request_other(engine, request, part)


def _letters_of(tasks: TaskStores, task_id: str) -> list[str]:
    """Return the ids of the dead letters that concern the task. Cost: the letters, 1,000 at most."""
    found = list[str]()
    page = DeadLetterPage([], "")
    while True:
        page = tasks.dead_letters.page(100, page.cursor)
        found += (letter.letter_id for letter in page.letters if concerns(letter, task_id))
        if not page.cursor:
            return found


def _sub_tasks(workspace: WorkspaceRecords, task_id: str) -> Iterable[str]:
    """Yield the sub-tasks, also one that was stopped before it was submitted and holds no more than this stop.

    Only lines that may delegate are parsed. Cost: a request for each delegating call.
    """
    for line in workspace.histories.lines(task_id):
        if f'"{DELEGATE}"'.encode() not in line:
            continue
        for call in parse_step(line).calls:
            child = sub_task_id(task_id, call.id)
            if call.tool_name == DELEGATE and next(workspace.files.tree(task_folder(child)), None) is not None:
                yield child


def _request_other(engine: Engine, request: ErasureRequest, task_id: str) -> None:
    fields = {"task_id": task_id, "requested_at": engine.now(), "stop": True}
    other = request.model_copy(update=fields | ({"forks": "keep"} if request.forks == "refuse" else {}))
    try:
        request_erasure(engine, other)
    except UsageError as error:  # it never existed, or was removed by hand
        _log.info("task %s, a part of task %s, is not erased: %s", task_id, request.task_id, error)


def _names_below(workspace: WorkspaceRecords, folder: str) -> list[str]:
    found = page = workspace.files.names_after(folder, "", PAGE_SIZE)
    while len(page) == PAGE_SIZE:
        page = workspace.files.names_after(folder, page[-1], PAGE_SIZE)
        found = [*found, *page]
    return found
