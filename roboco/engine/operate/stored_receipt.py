"""stored_receipt: the receipt of a task that is being erased, which one coordinator at a time replaces."""

from roboco.domain.paths import tombstone_path
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.engine.accept.request_erasure import pending_receipt
from roboco.engine.engine import Engine
from roboco.engine.operate.erasure_inventory import request_listed_parts
from roboco.engine.tombstones import parse_receipt
from roboco.errors import TransientError


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
            request_listed_parts(engine, request, known)
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
