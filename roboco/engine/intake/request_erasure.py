"""request_erasure: accept a request to erase a task. Coordinators carry it out (`coordinator/erase.py`).

    receipt? ─► checks: ended, or `stop`; forks ─► _erasing/ID ══ accepted ══► schedule ─► sweeper
    (get)       (get marker, list forks)           (create)                    (set)

If the client dies after the acceptance, the sweeper finds the request when it fills the schedule. A repetition changes
nothing, and returns the receipt so far.
"""

from roboco.domain.ids import check_task_id
from roboco.domain.paths import CLOSED, ERASE_PREFIX, erasure_path, forks_path, open_marker_path, task_folder
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.engine.engine import Engine
from roboco.engine.tombstones import receipt_of
from roboco.errors import StateConflict, TransientError

_SHOWN_FORKS = 3


def request_erasure(engine: Engine, request: ErasureRequest, delay: float = 0.0) -> ErasureReceipt:
    """Accept the request, to be carried out after the delay in seconds. Return the receipt so far.

    Raise NotFound if there is no such task, StateConflict if it is open and `stop` is not set, or if it has forks and
    `forks` does not say what happens to them, and TransientError if a server does not answer: send it again then.
    Cost: six requests to the workspace.
    """
    task_id = check_task_id(request.task_id)
    receipt = receipt_of(engine.files, task_id)
    if receipt is not None and receipt.finished_at is not None and not _removes_archive(receipt, request):
        return receipt
    if receipt is None:
        _check(engine, request)
    _store(engine, request)
    engine.schedule.schedule_no_later_than(f"{ERASE_PREFIX}{task_id}", delay)
    return receipt_of(engine.files, task_id) or pending_receipt(request)


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


def _removes_archive(receipt: ErasureReceipt, request: ErasureRequest) -> bool:
    return receipt.status == "archived" and not request.archive


def _check(engine: Engine, request: ErasureRequest) -> None:
    task_id = request.task_id
    marker = engine.files.get(open_marker_path(task_id))
    if marker is None and next(engine.files.tree(task_folder(task_id)), None) is None:
        raise engine.summaries.missing(task_id)
    if marker is not None and not request.stop:
        if marker == CLOSED:
            raise TransientError(f"task {task_id!r} is being closed; send this again in a few seconds")
        raise StateConflict(f"task {task_id!r} has not ended: stop it first, or erase it with `stop` (--stop)")
    forks = engine.files.names_after(forks_path(task_id), "", _SHOWN_FORKS + 1)
    if forks and request.forks == "refuse":
        more = " and others" if len(forks) > _SHOWN_FORKS else ""
        raise StateConflict(
            f"task {task_id!r} has forks, whose histories contain its steps: {', '.join(forks[:_SHOWN_FORKS])}{more}; "
            "say whether they are erased, too (--forks erase), or kept (--forks keep)"
        )


def _store(engine: Engine, request: ErasureRequest) -> None:
    """Store the request, unless one is stored that removes as much."""
    path, data = erasure_path(request.task_id), request.model_dump_json().encode()
    stored = engine.files.get_versioned(path)
    if stored is not None:
        before = ErasureRequest.model_validate_json(stored.data)
        if request.archive or not before.archive:
            return
    if not engine.files.replace(path, data, None if stored is None else stored.version):
        raise TransientError(f"another request to erase task {request.task_id!r} was stored at that moment; repeat it")
