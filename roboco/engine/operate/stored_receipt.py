"""stored_receipt: the receipt of a task that is being erased, which one coordinator at a time replaces."""

from roboco.domain.paths import tombstone_path
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.engine.accept.request_erasure import pending_receipt
from roboco.engine.engine import Engine
from roboco.engine.operate.erasure_inventory import request_listed_parts
from roboco.engine.tombstones import parse_receipt
from roboco.errors import TransientError, UsageError


class StoredReceipt:
    """The stored receipt, which this job replaces only while no other has."""

    def __init__(self, engine: Engine, now: ErasureReceipt, version: str | None) -> None:
        self._engine = engine
        self._version = version
        self.now = now

    @classmethod
    def open(cls, engine: Engine, request: ErasureRequest) -> "StoredReceipt":
        """Return the receipt of the request, stored if there is none. A later request may have replaced the first."""
        stored = engine.files.get_versioned(tombstone_path(request.task_id))
        known = None if stored is None else parse_receipt(stored.data)
        found = cls(engine, known or pending_receipt(request), None if stored is None else stored.version)
        if known is None:
            found.update()
        elif known.status == "archived" and not request.archive:
            found._reopen(request)
        elif known.status == "erasing" and _origin(known) != _origin(pending_receipt(request)):
            request_listed_parts(engine, request, known)
            found.update(**_origin(pending_receipt(request)))
        return found

    def update(self, **fields: object) -> None:
        """Store the receipt with these fields. Raise TransientError if another coordinator has changed it."""
        changed = self.now.model_copy(update=fields)
        path, data = tombstone_path(self.now.task_id), changed.model_dump_json().encode()
        if not self._engine.files.replace(path, data, self._version):
            raise TransientError(f"another coordinator erases task {self.now.task_id!r}; this one tries again later")
        stored = self._engine.files.get_versioned(path)
        self.now, self._version = changed, None if stored is None else stored.version

    def remove_archive(self) -> None:
        """Remove the archived file, if there is one. If that is impossible, the receipt names the reason."""
        if not self.now.archive:
            return
        address, _, name = self.now.archive.rpartition("/")
        try:
            self._engine.archive(address).delete(name)
        except UsageError as error:
            if self.now.problem != str(error):
                self.update(problem=str(error))
        else:
            problem = "" if self.now.problem.startswith("archive ") else self.now.problem
            self.update(archive="", archived_bytes=0, archived_sha256="", problem=problem)

    def _reopen(self, request: ErasureRequest) -> None:
        """Begin the erasure of an archived task: the archived file is left of it, and its parts."""
        known = self.now
        request_listed_parts(self._engine, request, known)
        self.now = pending_receipt(request)
        self.update(
            archive=known.archive,
            files=1,
            bytes=known.archived_bytes,
            kinds={"archive": 1},
            sub_tasks=known.sub_tasks,
            forks=known.forks,
        )


def _origin(receipt: ErasureReceipt) -> dict[str, object]:
    return {"by": receipt.by, "reason": receipt.reason, "forks_erased": receipt.forks_erased}
