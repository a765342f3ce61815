"""claimed_call: a tool call that a worker has claimed, and its execution.

Two-phase effects: an irreversible tool has an effect that must not happen twice, and no transaction spans the tool and
the workspace. So the worker stores an intent before it runs the tool, and the outcome after that. Both files outlive
the worker:

    no intent             the tool has not begun: the next attempt runs it
    intent, no outcome    the tool may have had its effect: it is never run again. Its `verify` finds the outcome out;
                          without `verify` the outcome is unknown, and goes to the agent or to a person
    outcome               the tool has run: the next attempt records this outcome

The intent is created, not put: of two attempts that overlap, one creates it and runs the tool. Tools that are not
irreversible run again with every attempt, with neither file.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ToolCall
from roboco.domain.history.tool_outcome import ToolOutcome, unknown_outcome
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import ServerTool, ToolDeclaration
from roboco.engine.engine import Engine
from roboco.engine.record.effects import has_intent, stored_outcome
from roboco.engine.record.tool_listings import changed_tool_refusal
from roboco.engine.retry import retry
from roboco.ports.assignment import ToolAssignment
from roboco.ports.tools import ToolContext

T = TypeVar("T")
_log = logging.getLogger(__name__)

LOST_REASON = "the worker that ran this call was lost, or the call was ended because its time was up"


def is_irreversible(spec: ToolDeclaration | None) -> bool:
    """Return True if the tool has an effect that must not happen twice."""
    return spec is not None and spec.effect == "irreversible"


@dataclass(frozen=True)
class ClaimedCall:
    """A call that this worker has claimed."""

    engine: Engine
    team: Team
    order: ToolAssignment
    token: str
    call: ToolCall
    spec: ToolDeclaration | None
    context: ToolContext

    @property
    def irreversible(self) -> bool:
        """True if the tool has an effect that must not happen twice."""
        return is_irreversible(self.spec)

    def interrupt(self) -> None:
        """Interrupt the tool. Another thread calls this."""
        self.context.cancellation.set()
        self.engine.process.held_work.host.interrupt_call()

    def run(self) -> ToolOutcome | None:
        """Run the call and return its outcome, or None if another attempt has replaced this one."""
        if self.spec is None or not self.irreversible:
            if (refused := self._refusal()) is not None:
                return refused
            run = partial(self.engine.services.toolbox.run, self.team, self.call, self.spec, self.context)
            return self._offload_large(self._retry(run, self._describe("call")))
        return self._run_once(self.spec)

    def _run_once(self, spec: ToolDeclaration) -> ToolOutcome | None:
        """Run an irreversible call, unless an earlier attempt has begun it: then return the outcome that is known.

        The lease is confirmed before the intent is stored, and again after that if storing took long: this process may
        have been suspended. An intent is never deleted, because a delayed deletion could delete another worker's.
        """
        confirmed_at = self.engine.clock.now()
        if not self._confirm_lease():
            return None
        if (refused := self._refusal()) is not None:
            return refused
        if not self._store_intent():
            return self._verified_outcome(
                spec, stored_outcome(self.engine.workspace, self.context.task_id, self.call.id)
            )
        if self.engine.clock.now() - confirmed_at > self.engine.policy.lease / 2 and not self._confirm_lease():
            return None
        outcome = self._offload_large(self.engine.services.toolbox.run(self.team, self.call, spec, self.context))
        if outcome.unknown:
            outcome = self._verified_outcome(spec, outcome)
        self._store_outcome(outcome)
        return outcome

    def _refusal(self) -> ToolOutcome | None:
        """Return an outcome that refuses a call of an MCP server's tool, such as one that changed, or None to run it.

        If an earlier attempt has stored an intent, the call is not checked again, because it may have run.
        """
        spec, task_id = self.spec, self.context.task_id
        if not isinstance(spec, ServerTool):
            return None

        def judged() -> ToolOutcome | None:
            begun = self.irreversible and has_intent(self.engine.workspace, task_id, self.call.id)
            return None if begun else changed_tool_refusal(self.engine, self.team, task_id, self.call, spec)

        return self._retry(judged, self._describe("the listing for call"))

    def _store_intent(self) -> bool:
        """Store the intent. Return True if this attempt is the first to store one; only then may it run the tool.

        If the store does not answer, or the pool stops this process at its time limit, release the call and raise.
        """
        path = intent_path(self.context.task_id, self.call.id)
        facts = {"call": self.call.model_dump(mode="json"), "attempt": self.context.attempt, "token": self.token}
        data = canonical_json(facts).encode()
        try:
            return self._retry(
                lambda: self.engine.workspace.files.create(path, data), self._describe("the intent of call")
            )
        except Exception:
            self.engine.tasks.leases.release_call(self.order, self.token)
            raise

    def _store_outcome(self, outcome: ToolOutcome) -> None:
        path, data = outcome_path(self.context.task_id, self.call.id), outcome.model_dump_json().encode()
        description = self._describe("the outcome of call")
        try:
            self._retry(lambda: self.engine.workspace.files.put(path, data), description)
        except Exception as error:  # the exception of the pool at the time limit is one, too
            _log.warning("%s is stored in Redis alone: %r", description, error)

    def _offload_large(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with a too large result stored in a file, or truncated if that cannot be stored."""
        offload = partial(self.engine.services.toolbox.offload_large, outcome, self.context)
        description = self._describe("the large result of call")
        try:
            return self._retry(offload, description)
        except Exception as error:
            _log.warning("%s is truncated, because it cannot be stored: %r", description, error)
            return self.engine.services.toolbox.truncate_large(outcome)

    def _verified_outcome(self, spec: ToolDeclaration, outcome: ToolOutcome | None) -> ToolOutcome:
        """Return the outcome of a call that has begun: the stored one, the one that its tool verifies, or unknown."""
        if outcome is not None and not outcome.unknown:
            return outcome
        found = self.engine.services.toolbox.verify(self.call, spec, self.context)
        return (
            self._offload_large(found)
            if found
            else outcome or unknown_outcome(self.call.id, LOST_REASON, spec.on_unknown)
        )

    def _renew_lease(self) -> bool:
        return self.engine.tasks.leases.renew_call(self.order, self.token)

    def _confirm_lease(self) -> bool:
        """Return True if this worker still has the lease. If Redis does not answer, try again for one lease time."""
        description = self._describe("the lease of call")
        return retry(self._renew_lease, lambda: True, description, self.engine.clock, self.engine.policy.lease)

    def _retry(self, operation: Callable[[], T], description: str) -> T:
        """Return the result of the operation, retried while its server does not answer and the lease is held."""
        clock, timeout = self.engine.clock, self.engine.policy.store_timeout
        return retry(operation, self._renew_lease, description, clock, timeout)

    def _describe(self, what: str) -> str:
        return f"{what} {self.call.id} of task {self.context.task_id}"
