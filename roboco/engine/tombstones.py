"""tombstones: the receipts of erased tasks reject whatever arrives late.

    submission, fork, message, upload ─► receipt? ─► Erased (HTTP status 410)
    commit, claim, emit of a worker   ─► fence in Redis is gone ─► refused; a late file is removed by a later check
    open marker of a late client      ─► pass ─► receipt? ─► the task is erased again

Redis refuses to create an erased task for two days, longer than any client or worker takes. The receipt in the
workspace remains, until an operator removes it; then the id may be used again.
"""

from datetime import UTC, datetime

from pydantic import ValidationError

from roboco.domain.paths import erasure_path, tombstone_path
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.errors import Erased
from roboco.ports.workspace import Files


def receipt_of(files: Files, task_id: str) -> ErasureReceipt | None:
    """Return the receipt of the erased task, or None if it is not erased. Cost: one read."""
    data = files.get(tombstone_path(task_id))
    return None if data is None else parse_receipt(data) or _unreadable(task_id)


def is_erased(files: Files, task_id: str) -> bool:
    """Return True if nothing of the task is left. Cost: one read."""
    receipt = receipt_of(files, task_id)
    return receipt is not None and receipt.status == "erased"


def parse_receipt(data: bytes) -> ErasureReceipt | None:
    """Return the receipt, or None if the bytes are not one, as a full disk or a restore may leave them."""
    try:
        return ErasureReceipt.model_validate_json(data)
    except ValidationError:
        return None


def parse_request(data: bytes) -> ErasureRequest | None:
    """Return the request, or None if the bytes are not one, as a full disk or a restore may leave them."""
    try:
        return ErasureRequest.model_validate_json(data)
    except ValidationError:
        return None


def check_not_erased(files: Files, task_id: str) -> None:
    """Raise Erased if the task was erased, or is being erased."""
    if (error := erased_error(files, task_id)) is not None:
        raise error


def check_not_erasing(files: Files, task_id: str) -> None:
    """Raise Erased if the task was erased, or if its erasure is requested. Cost: two reads."""
    check_not_erased(files, task_id)
    if files.size(erasure_path(task_id)) is not None:
        raise Erased(f"task {task_id!r} is being erased, as was requested")


def erased_error(files: Files, task_id: str) -> Erased | None:
    """Return the error of an erased task, or None if the task is not erased."""
    receipt = receipt_of(files, task_id)
    if receipt is None:
        return None
    if receipt.status == "erasing":
        return Erased(f"task {task_id!r} is being erased, as was requested")
    at = f"{receipt.finished_at or receipt.requested_at:%Y-%m-%d %H:%M} UTC"
    by = f" by {receipt.by}" if receipt.by else ""
    return Erased(f"task {task_id!r} was erased at {at}{by}; its id cannot be used again")


def _unreadable(task_id: str) -> ErasureReceipt:
    """Return a receipt in place of a broken one: whatever it holds, the task was erased."""
    return ErasureReceipt(task_id=task_id, status="erased", requested_at=datetime.fromtimestamp(0, UTC))
