"""Administration: the part of the client that is for operators alone: dead letters, switches, operations and keys."""

from collections.abc import Sequence
from typing import Unpack

from celery import Celery

from roboco.client.audit import MAX_ID_CHARS
from roboco.client.operator import dead_letters
from roboco.client.operator.operations import Operations, WorkerReport
from roboco.client.operator.task_removal import TaskRemoval
from roboco.client.operator.usage import UsageCollector, UsageSummary
from roboco.client.options import UsageOptions
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.switch import Switch
from roboco.ports.dead_letters import DeadLetterPage


class Administration(TaskRemoval):
    """Manages dead letters and switches, and reports on the deployment and its usage.

    A tenant gets UsageError from each, but for its own usage.
    """

    _producer: Celery
    _operations: Operations

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters, oldest first: messages that no worker could accept, and work lost too often.

        Raises UsageError for a tenant: dead letters are the operator's.
        """
        self._require_operator("dead letters")
        return self._engine.dead_letters.entries()

    def dead_letter_page(self, limit: int = 50, cursor: str = "") -> DeadLetterPage:
        """Return at most `limit` dead letters, newest first. The cursor of a page returns the next one.

        Raises UsageError for a tenant, and if the cursor is wrong.
        """
        self._require_operator("dead letters")
        return self._engine.dead_letters.page(limit, cursor)

    def dead_letter(self, letter_id: str) -> DeadLetter:
        """Return a dead letter. Raises UsageError if there is none with this id, and for a tenant."""
        self._require_operator("dead letters")
        return dead_letters.find(self._engine, letter_id)

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
            return dead_letters.dismiss(self._engine, letter_id)

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
        return list(self._engine.switches.stored().off)

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
            return self._engine.switches.switch_off(target, reason, interrupt, caller, self._engine.now())

    def switch_on(self, target: str, *, by: str | None = None) -> Switch | None:
        """Switch it on again. Return the switch that it had, or None if it was not switched off.

        Its tasks continue within half a minute, spread at random. Raises UsageError if the target is wrong, and for a
        tenant. After a TransientError repeat the call.
        """
        self._require_operator("switches")
        with self._audited("switch_on", by, {"target": target[:MAX_ID_CHARS]}):
            return self._engine.switches.switch_on(target)

    def drain_worker(self, name: str, timeout: float | None = None, *, by: str | None = None) -> WorkerReport:
        """Ask a live worker to drain, and return it: it takes no more work, ends with the work that it has, and exits.

        Work that has not ended after `timeout` seconds, by default its ROBOCO_DRAIN_TIMEOUT, is handed over to other
        workers. `operations.worker(name)` returns its progress, and None once it has ended.
        Raises NotFound if no live worker has this name, and UsageError for a tenant.
        """
        self._require_operator("operations")
        with self._audited("drain_worker", by, {"worker": name[:MAX_ID_CHARS]}):
            return self._operations.drain(name, timeout)

    @property
    def operations(self) -> Operations:
        """The queues, workers and rate limits of the deployment. Raises UsageError for a tenant."""
        self._require_operator("operations")
        return self._operations
