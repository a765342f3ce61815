"""Operator: the part of the client for operators: dead letters, switches, keys, removal of tasks, and usage.

Coordinators carry out an erasure. So the client needs no right to remove objects and keys.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from typing import Unpack

from celery import Celery
from redis.cluster import RedisCluster

from roboco.client import access_keys
from roboco.client.access_keys import CreatedKey
from roboco.client.audit import MAX_ID_CHARS, Act, audited
from roboco.client.in_thread import in_thread
from roboco.client.operator import dead_letters
from roboco.client.operator.operations import Operations, WorkerReport
from roboco.client.operator.task_removal import (
    DEFAULT_RATE,
    FIRST_WAIT,
    MAX_CAUSE_CHARS,
    MAX_WAIT,
    RemovalOutcome,
    RemovalPage,
)
from roboco.client.operator.usage import UsageCollector, UsageSummary
from roboco.client.options import ErasureOptions, KeyOptions, TaskFilterOptions, UsageOptions
from roboco.client.task_list import check_limit, task_filter
from roboco.domain.access_key import AccessKey
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.ids import qualified_id
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.memory import OF_TENANT, Memory, MemoryEntry, owner_path, tenant_memories
from roboco.domain.paths import erasure_path
from roboco.domain.removal.erasure import ErasureChoice, ErasureReceipt, ErasureRequest
from roboco.domain.removal.retention import due_rule
from roboco.domain.switch import Switch
from roboco.domain.task_filter import TaskFilter
from roboco.domain.task_summary import TaskSummary, entry_of
from roboco.engine.accept.conversations import is_without_task
from roboco.engine.accept.request_erasure import pending_receipt, request_erasure
from roboco.engine.engine import Engine
from roboco.engine.record.task_tar import check_exportable, task_tar
from roboco.engine.selected_tasks import SelectedPage, select_page
from roboco.engine.workspace_records import parse_request, receipt_of
from roboco.errors import Forbidden, NotFound, RobocoError, TransientError, UsageError
from roboco.ports.dead_letters import DeadLetterPage
from roboco.ports.memories import change_memory, read_memory
from roboco.redis.client import connect
from roboco.redis.cluster import LazyCluster
from roboco.redis.scripts import translating_errors
from roboco.settings import Settings


class Operator:
    """The acts of an operator, and what only an operator sees.

    A client with a tenant gets UsageError from each, but for usage, erasure and export.
    """

    def __init__(self, engine: Engine, settings: Settings, producer: Celery, operations: Operations) -> None:
        self.settings = settings
        self._engine = engine
        self._producer = producer
        self._operations = operations

    @property
    def operations(self) -> Operations:
        """The queues, workers and rate limits of the deployment. Raises UsageError for a tenant."""
        self._require_operator("operations")
        return self._operations

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters, oldest first: messages that no worker could accept, and work lost too often.

        Raises UsageError for a tenant: dead letters are the operator's.
        """
        self._require_operator("dead letters")
        return self._engine.tasks.dead_letters.entries()

    def dead_letter_page(self, limit: int = 50, cursor: str = "") -> DeadLetterPage:
        """Return at most `limit` dead letters, newest first. The cursor of a page returns the next one.

        Raises UsageError for a tenant, and if the cursor is wrong.
        """
        self._require_operator("dead letters")
        return self._engine.tasks.dead_letters.page(limit, cursor)

    def dead_letter(self, letter_id: str) -> DeadLetter:
        """Return a dead letter. Raises UsageError if there is none with this id, and for a tenant."""
        self._require_operator("dead letters")
        return dead_letters.find(self._engine.tasks, letter_id)

    def requeue_dead_letter(self, letter_id: str, *, by: str | None = None) -> DeadLetter:
        """Send a dead letter again, remove it from the list, and return it. The audit log names the caller `by`.

        Raises UsageError if it cannot be sent, if sending it would have no effect, and for a tenant.
        """
        self._require_operator("dead letters")
        with self._audited("requeue_dead_letter", by, {"letter": letter_id[:MAX_ID_CHARS]}):
            return dead_letters.requeue(self._engine, self._producer, letter_id)

    def dismiss_dead_letter(self, letter_id: str, *, by: str | None = None) -> DeadLetter | None:
        """Delete a dead letter for good, without sending it, and return it, or None if there is none with this id.

        The audit log names the caller `by`.

        If its cause persists, such as a broken history, the same dead letter is stored again. Raises UsageError for a
        tenant.
        """
        self._require_operator("dead letters")
        with self._audited("dismiss_dead_letter", by, {"letter": letter_id[:MAX_ID_CHARS]}):
            return dead_letters.dismiss(self._engine.tasks, letter_id)

    def usage(self, by: str | Sequence[str], **options: Unpack[UsageOptions]) -> UsageSummary:
        """Return turns, tokens, calls and cost, summed by some of tenant, team, agent, model, tool and day.

        `by` is a list of them, such as `tenant,day`. `UsageOptions` lists the conditions. A client with a tenant gets
        the usage of that tenant. Cost: one request to the workspace for each task that may have worked on these days,
        16 at a time, and a read of the steps that no report has counted yet.
        Raises UsageError if an option is wrong, and TransientError if a server does not answer: then call it again.
        """
        collector = self.usage_collector(by, **options)
        for _ in collector.collect():
            pass
        return collector.report()

    def usage_collector(self, by: str | Sequence[str], **options: Unpack[UsageOptions]) -> UsageCollector:
        """Return the report of `usage` as a collector, which reads it in pieces."""
        return UsageCollector(self._engine, self.settings.tenant, by, options)

    def switches(self) -> list[Switch]:
        """Return everything that is switched off, as the workspace records it. Redis is not asked.

        Raises UsageError for a tenant.
        """
        self._require_operator("switches")
        return list(self._engine.process.switches.stored().off)

    def switch_off(self, target: str, reason: str, *, interrupt: bool = False, by: str | None = None) -> Switch:
        """Switch off a queue, tenant, team, agent, model or tool: its turns and calls wait, with the reason.

        `target` is KIND:NAME, such as `model:gpt-4o` or `agent:TEAM/NAME`. Within a second no turn or call of it
        begins. Running ones end by themselves; with `interrupt` they are interrupted too, except calls of irreversible
        tools. No attempt is counted. A repetition replaces the reason.
        Raises UsageError if an argument is wrong, and for a tenant. After a TransientError repeat the call.
        """
        self._require_operator("switches")
        caller = self.settings.caller if by is None else by
        with self._audited("switch_off", by, {"target": target[:MAX_ID_CHARS], "interrupt": interrupt}):
            return self._engine.process.switches.switch_off(target, reason, interrupt, caller, self._engine.now())

    def switch_on(self, target: str, *, by: str | None = None) -> Switch | None:
        """Switch it on again. Return the switch that it had, or None if it was not switched off.

        Its tasks continue within half a minute, spread at random. Raises UsageError if the target is wrong, and for a
        tenant. After a TransientError repeat the call.
        """
        self._require_operator("switches")
        with self._audited("switch_on", by, {"target": target[:MAX_ID_CHARS]}):
            return self._engine.process.switches.switch_on(target)

    def drain_worker(self, name: str, timeout: float | None = None, *, by: str | None = None) -> WorkerReport:
        """Ask a live worker to drain, and return it: it takes no more work, ends with the work that it has, and exits.

        Work that has not ended after `timeout` seconds, by default its ROBOCO_DRAIN_TIMEOUT, is handed over to other
        workers. `operations.worker(name)` returns its progress, and None once it has ended.
        Raises NotFound if no live worker has this name, and UsageError for a tenant.
        """
        self._require_operator("operations")
        with self._audited("drain_worker", by, {"worker": name[:MAX_ID_CHARS]}):
            return self._operations.drain(name, timeout)

    def create_key(self, **options: Unpack[KeyOptions]) -> CreatedKey:
        """Store a new key of the HTTP gateway. Return it with its text, which cannot be read again.

        Raises UsageError if an option is wrong.
        """
        self._require_operator("keys")
        details: dict[str, object] = {}
        with self._audited("create_key", None, details):
            created = access_keys.create_key(self._engine.workspace.files, {**options}, datetime.now(UTC))
            details |= {"key": created.key.id, "key_tenant": created.key.tenant}
            return created

    def find_key(self, key_id: str) -> AccessKey | None:
        """Return the key with this id, revoked and expired ones too, or None. Redis is not asked."""
        self._require_operator("keys")
        return access_keys.find_key(self._engine.workspace.files, key_id)

    def keys(self) -> Iterator[AccessKey]:
        """Yield all keys, revoked and expired ones too."""
        self._require_operator("keys")
        return access_keys.keys(self._engine.workspace.files)

    def revoke_key(self, key_id: str, *, by: str | None = None) -> AccessKey:
        """Revoke a key for ever. Gateways refuse it within some seconds. Raises UsageError if there is none.

        The audit log names the caller `by`.
        """
        self._require_operator("keys")
        details: dict[str, object] = {"key": key_id[:MAX_ID_CHARS]}
        with self._audited("revoke_key", by, details):
            revoked = access_keys.revoke_key(self._engine.workspace.files, key_id, datetime.now(UTC))
            details["key_tenant"] = revoked.tenant
            return revoked

    def erase(self, task_id: str, *, timeout: float = 30.0, **options: Unpack[ErasureOptions]) -> ErasureReceipt:
        """Erase a task, and return its receipt: of an erasure that is complete, or as far as it is after `timeout`.

        Once this returns, coordinators complete it, whatever fails. The same call again returns the same receipt.
        Raises UsageError if there is no such task, if it has not ended and `stop` is not set, or if it has forks and
        `forks` is not chosen. Raises TransientError if a server does not answer.
        """
        request = self._erasure_request(task_id, options)
        with self._audited("erase", request.by, task_id=request.task_id):
            receipt = request_erasure(self._engine, request)
        end, pause = time.monotonic() + timeout, FIRST_WAIT
        while not _is_complete(receipt) and time.monotonic() < end:
            time.sleep(min(pause, max(0.0, end - time.monotonic())))
            pause = min(MAX_WAIT, 2 * pause)
            receipt = self._receipt_so_far(request)
        return receipt

    def rewrite_append_only_file(self) -> None:
        """Let Redis rewrite its append-only file, which holds erased texts until then. It returns before the end.

        Raises UsageError if the user of Redis may not, and TransientError if Redis does not answer.
        """
        self._require_operator("the append-only file of Redis")
        with translating_errors(), closing(connect(self.settings.redis_url)) as client:
            nodes = {"target_nodes": RedisCluster.PRIMARIES} if isinstance(client, LazyCluster) else {}
            client.bgrewriteaof(**nodes)

    def erasure(self, task_id: str) -> ErasureReceipt:
        """Return the receipt of a task that was erased, or whose erasure is requested.

        Raises UsageError if there is none.
        """
        whole_id = qualified_id(self.settings.tenant, task_id)
        if (receipt := receipt_of(self._engine.workspace.files, whole_id)) is not None:
            return receipt
        stored = self._engine.workspace.files.get(erasure_path(whole_id))
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
        If the tenant is the only condition, and `stop` is set, each page also has the tenant's conversations without a
        task, and the last one erases its memories.
        Raises UsageError without a condition, and for a wrong one.
        """
        given = options or {}
        if not any(value not in (None, (), "", False) or name == "tenant" for name, value in filters.items()):
            raise UsageError("no condition is given: name tenant, team, status, time or title")
        wanted = task_filter(self.settings.tenant, filters)
        only_ended = not given.get("stop", False)

        def is_wanted(task: TaskSummary) -> bool:
            return wanted.matches(entry_of(task)) and (task.status.ended or not only_ended)

        workspace = self._engine.workspace
        page = select_page(workspace, is_wanted, cursor, check_limit(limit), wanted.tenant)
        is_tenant = wanted.tenant is not None and wanted == TaskFilter(tenant=wanted.tenant) and not only_ended
        task_ids = [task.task_id for task in page.tasks]
        task_ids += [one for one in page.unknown if is_tenant and is_without_task(workspace, one)]
        if dry_run:
            return _page(page, (RemovalOutcome(task_id=task_id, outcome="matched") for task_id in task_ids))
        if is_tenant and not page.cursor:
            self.erase_memory(tenant=wanted.tenant, by=given.get("by"))
        delays = (delay + number / rate for number in range(len(task_ids)))
        return _page(page, map(lambda task_id, begin: self._request(task_id, given, begin), task_ids, delays))

    def memory(self, of: str = OF_TENANT, value: str = "", *, tenant: str | None = None) -> Memory:
        """Return the memory of an owner: of a tenant, or of the `value` of `of`, such as `context.user`."""
        return read_memory(self._engine.workspace.files, owner_path(self._memories(tenant), of, value))

    def erase_memory(
        self, of: str = "", value: str = "", *, entry: str = "", tenant: str | None = None, by: str | None = None
    ) -> int:
        """Erase the entries of an owner, or without `of`, all those of the tenant. Return their number.

        With the id of an `entry`, erase that one alone.

        Nothing else of a memory remains but the ids of its last entries, by which what arrives late is refused. A task
        of the owner that still runs may remember again. Cost: two requests to the workspace for each owner.
        """

        def is_erased(one: MemoryEntry) -> bool:
            return entry in ("", one.id)

        files, owned_by = self._engine.workspace.files, self._memories(tenant)
        folder = tenant_memories(owned_by)
        paths = [owner_path(owned_by, of, value)] if of else [folder + name for name in files.names(folder)]
        with self._audited("erase_memory", by, {"memory": paths[0] if of else folder}):
            before = [change_memory(files, path, lambda memory: memory.without(is_erased)) for path in paths]
            return sum(is_erased(one) for memory in before for one in memory.entries)

    def retention_page(self, *, cursor: str = "", limit: int = 200) -> RemovalPage:
        """Return the tasks of a page that the rules of this client's settings would remove now.

        Raises UsageError for a tenant, and without rules.
        """
        self._require_operator("retention rules")
        rules, now = self._engine.policy.retention_rules, self._engine.now()
        if not rules:
            raise NotFound("no rules: ROBOCO_RETENTION_RULES is not set in this process")
        page = select_page(
            self._engine.workspace, lambda task: due_rule(rules, task, now) is not None, cursor, check_limit(limit)
        )

        def outcome(task: TaskSummary) -> RemovalOutcome:
            rule = due_rule(rules, task, now)
            return RemovalOutcome(task_id=task.task_id, outcome="matched", cause="" if rule is None else rule.text)

        return _page(page, map(outcome, page.tasks))

    def export_task(self, task_id: str, *, by: str | None = None) -> Iterator[bytes]:
        """Return the bytes of an ended task as a tar, piece by piece, in bounded memory.

        Raises UsageError if there is no such task, or if it has not ended. Sub-tasks are exported on their own.
        Raises TransientError if a coordinator does not close a task that has ended within five seconds.
        """
        whole_id = qualified_id(self.settings.tenant, task_id)
        with self._audited("export", by, task_id=whole_id):
            check_exportable(self._engine, whole_id)
        return task_tar(self._engine.workspace, whole_id)

    aerase = in_thread(erase)

    def _audited(
        self, action: str, by: str | None, details: dict[str, object] | None = None, task_id: str | None = None
    ) -> AbstractContextManager[None]:
        """Return the audit of an act of an operator; the caller is `by`, or that of the settings."""
        caller = self.settings.caller if by is None else by
        return audited(
            Act(action, caller, task_id, details={} if details is None else details), self.settings.audit_log
        )

    def _memories(self, tenant: str | None) -> str:
        """Return the tenant of the memories, "" without one. Raise Forbidden if it is not that of this client."""
        return task_filter(self.settings.tenant, {"tenant": tenant}).tenant or ""

    def _require_operator(self, things: str) -> None:
        """Raise UsageError for a client with a tenant."""
        if self.settings.tenant is not None:
            raise Forbidden(f"{things} are the operator's, not of tenant {self.settings.tenant!r} (ROBOCO_TENANT)")

    def _erasure_request(self, task_id: str, options: ErasureOptions) -> ErasureRequest:
        chosen = parse_arguments(ErasureChoice, {**options})
        whole_id = qualified_id(self.settings.tenant, task_id)
        fields = chosen.model_dump() | {"by": chosen.by or self.settings.caller}
        return ErasureRequest(task_id=whole_id, requested_at=self._engine.now(), **fields)

    def _receipt_so_far(self, request: ErasureRequest) -> ErasureReceipt:
        """Return the receipt of an accepted request."""
        receipt = receipt_of(self._engine.workspace.files, request.task_id)
        if receipt is not None:
            return receipt
        return pending_receipt(request)

    def _request(self, task_id: str, options: ErasureOptions, delay: float) -> RemovalOutcome:
        try:
            request = self._erasure_request(task_id, options)
            with self._audited("erase", request.by, task_id=request.task_id):
                receipt = request_erasure(self._engine, request, delay)
        except TransientError:
            raise
        except RobocoError as error:
            return RemovalOutcome(task_id=task_id, outcome="refused", cause=str(error)[:MAX_CAUSE_CHARS])
        return RemovalOutcome(task_id=task_id, outcome="erased" if _is_complete(receipt) else "accepted")


def _is_complete(receipt: ErasureReceipt) -> bool:
    return receipt.finished_at is not None


def _page(page: SelectedPage, outcomes: Iterable[RemovalOutcome]) -> RemovalPage:
    return RemovalPage(tasks=list(outcomes), tasks_read=page.read, cursor=page.cursor)
