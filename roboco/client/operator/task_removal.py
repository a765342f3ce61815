"""TaskRemoval: the part of the client that erases, exports and imports tasks, and previews the retention.

The client accepts requests; coordinators carry them out. So it needs no right to remove objects, keys and archives.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Final, Literal, Unpack

from roboco.client.audit import Act, audited
from roboco.client.in_thread import in_thread
from roboco.client.operator.key_administration import KeyAdministration
from roboco.client.options import ErasureOptions, TaskFilterOptions
from roboco.client.task_list import check_limit, task_filter
from roboco.domain.ids import qualified_id, tenant_of
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.paths import erasure_path
from roboco.domain.removal.erasure import ErasureChoice, ErasureReceipt, ErasureRequest
from roboco.domain.removal.retention import due_rule
from roboco.domain.schema import RecordModel
from roboco.domain.task_entry import entry_of
from roboco.domain.task_summary import TaskSummary
from roboco.engine.accept.request_erasure import pending_receipt, request_erasure
from roboco.engine.operate.import_task import import_task
from roboco.engine.operate.tar_contents import verified
from roboco.engine.record.task_tar import check_exportable, task_tar
from roboco.engine.selected_tasks import SelectedPage, select_page
from roboco.engine.tombstones import parse_request, receipt_of
from roboco.errors import Forbidden, NotFound, RobocoError, TransientError, UsageError

FIRST_WAIT: Final = 0.1
MAX_WAIT: Final = 2.0
"""Seconds between two reads of a receipt that is not finished. They begin with FIRST_WAIT and double."""
DEFAULT_RATE: Final = 5.0
"""Tasks a second whose erasure begins."""
MAX_CAUSE_CHARS: Final = 500


class RemovalOutcome(RecordModel):
    """A task that meets the conditions, and the effect on it."""

    task_id: str
    outcome: Literal["matched", "accepted", "erased", "refused"]
    """`matched` in a preview, `erased` if the task has a finished receipt, and `refused` for the cause."""
    cause: str = ""
    """The error of a refusal, or in a preview of the retention, the rule that is due."""


class RemovalPage(RecordModel):
    """The tasks of a page of the workspace that meet the conditions."""

    tasks: list[RemovalOutcome]
    tasks_read: int
    """Tasks that were read for this page."""
    cursor: str
    """The cursor of the next page, or "" after the last one. A page may have no tasks and a cursor."""


class TaskRemoval(KeyAdministration):
    """Erases, exports and imports tasks. A client with a tenant reaches the tasks of that tenant alone."""

    def erase(self, task_id: str, *, timeout: float = 30.0, **options: Unpack[ErasureOptions]) -> ErasureReceipt:
        """Erase a task, and return its receipt: of an erasure that is complete, or as far as it is after `timeout`.

        Once this returns, coordinators complete it, whatever fails. The same call again returns the same receipt.
        Raises UsageError if there is no such task, if it has not ended and `stop` is not set, or if it has forks and
        `forks` is not chosen. Raises TransientError if a server does not answer.
        """
        request = self._erasure_request(task_id, options)
        with self._audited_task("erase", request.task_id, request.by):
            receipt = request_erasure(self._engine, request)
        end, pause = time.monotonic() + timeout, FIRST_WAIT
        while not _is_complete(receipt) and time.monotonic() < end:
            time.sleep(min(pause, max(0.0, end - time.monotonic())))
            pause = min(MAX_WAIT, 2 * pause)
            receipt = self._receipt_so_far(request)
        return receipt

    def erasure(self, task_id: str) -> ErasureReceipt:
        """Return the receipt of a task that was erased or archived, or whose erasure is requested.

        Raises UsageError if there is none.
        """
        whole_id = qualified_id(self.settings.tenant, task_id)
        if (receipt := receipt_of(self._engine.files, whole_id)) is not None:
            return receipt
        stored = self._engine.files.get(erasure_path(whole_id))
        if stored is None or (request := parse_request(stored)) is None:
            raise NotFound(f"no receipt of task {task_id!r}: it was not erased")
        return pending_receipt(request)

    def removal_page(
        self,
        *,
        cursor: str = "",
        limit: int = 200,
        dry_run: bool = False,
        delay: float = 0.0,
        rate: float = DEFAULT_RATE,
        options: ErasureOptions | None = None,
        **filters: Unpack[TaskFilterOptions],
    ) -> RemovalPage:
        """Erase the tasks of a page that meet all conditions, and return the outcome for each. It waits for none.

        It reads the workspace, not the task index, which forgets ended tasks. Open tasks are left out, unless `stop` is
        set. The erasures begin after `delay` seconds, at `rate` tasks a second. With `dry_run` nothing is erased.
        Raises UsageError without a condition, and for a wrong one.
        """
        given = options or {}
        if not any(value not in (None, (), "", False) or name == "tenant" for name, value in filters.items()):
            raise UsageError("no condition is given: name tenant, team, status, time or title")
        wanted = task_filter(self.settings.tenant, filters)
        only_ended = not given.get("stop", False)

        def is_wanted(task: TaskSummary) -> bool:
            return wanted.matches(entry_of(task)) and (task.status.ended or not only_ended)

        page = select_page(self._engine, is_wanted, cursor, check_limit(limit), wanted.tenant)
        if dry_run:
            return _page(page, lambda task: RemovalOutcome(task_id=task.task_id, outcome="matched"))
        delays = iter(delay + number / rate for number in range(len(page.tasks)))
        return _page(page, lambda task: self._request(task.task_id, given, next(delays)))

    def retention_page(self, *, cursor: str = "", limit: int = 200) -> RemovalPage:
        """Return the tasks of a page that the rules of this client's settings would archive or remove now.

        Raises UsageError for a tenant, and without rules.
        """
        self._require_operator("retention rules")
        rules, now = self._engine.policy.retention_rules, self._engine.now()
        if not rules:
            raise NotFound("no rules: ROBOCO_RETENTION_RULES is not set in this process")
        page = select_page(
            self._engine, lambda task: due_rule(rules, task, now) is not None, cursor, check_limit(limit)
        )

        def outcome(task: TaskSummary) -> RemovalOutcome:
            rule = due_rule(rules, task, now)
            return RemovalOutcome(task_id=task.task_id, outcome="matched", cause="" if rule is None else rule.text)

        return _page(page, outcome)

    def export_task(self, task_id: str, *, by: str | None = None) -> Iterator[bytes]:
        """Return the bytes of an ended task as a tar, piece by piece, in bounded memory.

        Raises UsageError if there is no such task, or if it has not ended. Sub-tasks are exported on their own.
        Raises TransientError if a coordinator does not close a task that has ended within five seconds.
        """
        whole_id = qualified_id(self.settings.tenant, task_id)
        with self._audited_task("export", whole_id, by):
            check_exportable(self._engine, whole_id)
        return task_tar(self._engine, whole_id)

    def import_task(self, source: BinaryIO, *, by: str | None = None) -> TaskSummary:
        """Store the task of a tar, and return its summary. The source must be seekable, such as an open file.

        A process verifies the whole tar before anything is stored: names, sizes, digests, and the chain of the history.
        Raises UsageError, and stores nothing, if it was changed, or if its task exists or was erased.
        """
        details: dict[str, object] = {}
        with self._audited("import", by, details):
            summary = verified(source)
            details["imported"] = task_id = summary.task_id
            if self.settings.tenant not in (None, tenant_of(task_id)):
                raise Forbidden(f"task {task_id!r} is not one of tenant {self.settings.tenant!r}")
            import_task(self._engine, source, summary)
        return summary

    aerase = in_thread(erase)

    def _audited_task(self, action: str, task_id: str, by: str | None) -> AbstractContextManager[None]:
        """Return the audit of an act on a task; the caller is `by`, or that of the settings."""
        return audited(Act(action, by or self.settings.caller, task_id), self.settings.audit_log)

    def _erasure_request(self, task_id: str, options: ErasureOptions) -> ErasureRequest:
        chosen = parse_arguments(ErasureChoice, {**options})
        whole_id = qualified_id(self.settings.tenant, task_id)
        fields = chosen.model_dump() | {"by": chosen.by or self.settings.caller}
        return ErasureRequest(task_id=whole_id, requested_at=self._engine.now(), **fields)

    def _receipt_so_far(self, request: ErasureRequest) -> ErasureReceipt:
        """Return the receipt of an accepted request."""
        receipt = receipt_of(self._engine.files, request.task_id)
        if receipt is not None and (receipt.status != "archived" or request.archive):
            return receipt
        return pending_receipt(request)

    def _request(self, task_id: str, options: ErasureOptions, delay: float) -> RemovalOutcome:
        try:
            request = self._erasure_request(task_id, options)
            with self._audited_task("erase", request.task_id, request.by):
                receipt = request_erasure(self._engine, request, delay)
        except TransientError:
            raise
        except RobocoError as error:
            return RemovalOutcome(task_id=task_id, outcome="refused", cause=str(error)[:MAX_CAUSE_CHARS])
        return RemovalOutcome(task_id=task_id, outcome="erased" if _is_complete(receipt) else "accepted")


def _is_complete(receipt: ErasureReceipt) -> bool:
    return receipt.finished_at is not None


def _page(page: SelectedPage, outcome: Callable[[TaskSummary], RemovalOutcome]) -> RemovalPage:
    return RemovalPage(tasks=[outcome(task) for task in page.tasks], tasks_read=page.read, cursor=page.cursor)
