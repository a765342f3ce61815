"""request_erasure: accept a request to erase a task. Coordinators carry it out (`operate/erase.py`).

    receipt? ─► checks: ended, or `stop`; forks ─► _erasing/ID ══ accepted ══► schedule
    (get)       (get marker, list forks)           (create)                   (set)

If the client dies after the acceptance, the sweeper finds the request when it fills the schedule. A repetition changes
nothing, and returns the receipt so far. A request that removes more than the stored one replaces it. Each stored
request allows to stop the task: Redis may have lost an end that is not closed yet.
"""

from roboco.domain.ids import check_task_id
from roboco.domain.paths import ERASE_PREFIX, OPENED, erasure_path, forks_path, open_marker_path, task_folder
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record.closed import closed_summary
from roboco.engine.workspace_records import is_erased, parse_request, receipt_of
from roboco.errors import StateConflict, TransientError

_SHOWN_FORKS = 3
_PAGE_SIZE = 100


def request_erasure(engine: Engine, request: ErasureRequest, delay: float = 0.0) -> ErasureReceipt:
    """Accept the request, to be carried out after the delay in seconds. Return the receipt so far.

    Raise NotFound if there is no such task, StateConflict if it is open and `stop` is not set, or if it has forks and
    `forks` does not say what happens to them, and TransientError if a server does not answer: send it again then.
    If the marker of a task that has ended is still open, this waits for its close.
    Cost: some ten requests to the workspace.
    """
    task_id = check_task_id(request.task_id)
    receipt = receipt_of(engine.workspace.files, task_id)
    if receipt is None:
        _check_task(engine, request)
        _check_forks(request, _forks_of(engine.workspace, task_id))
    elif receipt.finished_at is not None:
        return receipt
    _store(engine.workspace, request.model_copy(update={"stop": True}))
    engine.tasks.schedule.schedule_no_later_than(f"{ERASE_PREFIX}{task_id}", delay)
    return receipt_of(engine.workspace.files, task_id) or pending_receipt(request)


def pending_receipt(request: ErasureRequest) -> ErasureReceipt:
    """Return the receipt of a request that no coordinator has begun to carry out."""
    return ErasureReceipt(
        task_id=request.task_id,
        status="erasing",
        requested_at=request.requested_at,
        by=request.by,
        reason=request.reason,
        forks_erased=request.forks == "erase",
    )


def _check_task(engine: Engine, request: ErasureRequest) -> None:
    """Raise unless the task exists, and has ended or may be stopped. One that is being closed counts as ended."""
    task_id = request.task_id
    marker = engine.workspace.files.get(open_marker_path(task_id))
    if marker is None and next(engine.workspace.files.tree(task_folder(task_id)), None) is None:
        raise engine.workspace.summaries.missing(task_id)
    if marker != OPENED or request.stop:
        return
    if not closed_summary(engine, task_id).status.ended:
        raise StateConflict(f"task {task_id!r} has not ended: stop it first, or erase it with `stop` (--stop)")


def _forks_of(workspace: WorkspaceRecords, task_id: str) -> list[str]:
    """Return the first forks that are not erased. Cost: a request for each erased one before them."""
    found, after = list[str](), ""
    while len(found) <= _SHOWN_FORKS and (page := workspace.files.names_after(forks_path(task_id), after, _PAGE_SIZE)):
        found += [fork for fork in page if not is_erased(workspace.files, fork)]
        after = page[-1]
    return found


def _check_forks(request: ErasureRequest, forks: list[str]) -> None:
    if forks and request.forks == "refuse":
        more = " and others" if len(forks) > _SHOWN_FORKS else ""
        raise StateConflict(
            f"task {request.task_id!r} has forks, whose histories contain its steps: "
            f"{', '.join(forks[:_SHOWN_FORKS])}{more}; "
            "say whether they are erased, too (--forks erase), or kept (--forks keep)"
        )


def _store(workspace: WorkspaceRecords, request: ErasureRequest) -> None:
    """Store the request, unless one is stored that has the same effect, or a greater one. A broken one is replaced."""
    path = erasure_path(request.task_id)
    stored = workspace.files.get_versioned(path)
    before = None if stored is None else parse_request(stored.data)
    if before is not None:
        if _covers(before, request):
            return
        forks = "erase" if before.forks == "erase" else request.forks
        keep_memory = before.keep_memory and request.keep_memory
        request = request.model_copy(update={"forks": forks, "keep_memory": keep_memory})
    version = None if stored is None else stored.version
    if not workspace.files.replace(path, request.model_dump_json().encode(), version):
        raise TransientError(f"another request to erase task {request.task_id!r} was stored at that moment; repeat it")


def _covers(before: ErasureRequest, request: ErasureRequest) -> bool:
    """Return True if the stored request removes as much as the other one."""
    more_forks = request.forks == "erase" and before.forks != "erase"
    more_entries = before.keep_memory and not request.keep_memory
    return not more_forks and not more_entries and (before.stop or not request.stop)
