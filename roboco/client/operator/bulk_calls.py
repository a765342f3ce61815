"""bulk_calls: the waiting tool calls of a task that a bulk decision concerns.

    newest step ─► its calls of the tool ─► waiting for this kind of decision? ─► decided already? ─► calls
    (made after the beginning: none)                                             (otherwise: not one of them)

A call that is made while the bulk control runs is left: no person has seen it in the count. So is one whose outcome
becomes unknown then: `bulk` leaves its task. A call whose tool has changed is left, too: a person reads each change.
"""

from dataclasses import dataclass
from datetime import datetime

from roboco.client.operator.bulk_control import BulkControl
from roboco.domain.canonical_json import sha256
from roboco.domain.decision.tool_answers import (
    local_answers,
    needs_approval,
    needs_change_approval,
    needs_resolution,
    spec_of,
    waits_for_client,
)
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.ids import answer_id, approval_id
from roboco.domain.inbox.item import ApprovalDecision, ExternalToolResult, Item, UnknownResolution
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import stored_item
from roboco.engine.record.newest_step import newest_step
from roboco.ports.task_store import Snapshot


@dataclass(frozen=True)
class MatchingCall:
    """A tool call that a bulk decision concerns."""

    call_id: str
    tool: str
    effect: str
    """The effect of the tool, or "client" if the client runs it."""
    is_decided: bool
    """True if the same decision is stored already."""


@dataclass(frozen=True)
class CallFinder:
    """Finds the calls that a bulk decision concerns."""

    engine: Engine
    control: BulkControl

    def calls(self, bulk_id: str, task_id: str, made_until: datetime) -> list[MatchingCall]:
        """Return the calls of the task that wait for the decision, and those that have it.

        Cost: a read of Redis or two, of the newest step, and two reads of the workspace for each call.
        """
        step = newest_step(self.engine, task_id)
        wanted = [] if step is None else [one for one in step.calls if self.control.tool in (None, one.tool_name)]
        if step is None or not wanted or step.created_at > made_until:
            return []
        team, live = self.engine.frozen_teams.get(task_id), self.engine.task_store.load(task_id, 1)
        waiting = [call for call in wanted if self._waits(team, step, call, live)]
        stored = {call.id: stored_item(self.engine, task_id, self._item_id(bulk_id, task_id, call)) for call in waiting}
        return [
            MatchingCall(call.id, call.tool_name, _effect(team, step, call), item is not None)
            for call in waiting
            if (item := stored[call.id]) is None or self._is_same(item)
        ]

    def _waits(self, team: Team, step: TaskStep, call: ToolCall, live: Snapshot | None) -> bool:
        """Return True if the call waits for this kind of decision, or would without the decision that it has."""
        outcome = _outcome(live, call)
        if self.control.name == "resolve":
            return needs_resolution(outcome) and not needs_change_approval(outcome)
        if outcome is not None or call.id in _answered(team, step, live):
            return False
        return waits_for_client(team, call) if self.control.name == "answer" else needs_approval(team, call)

    def _item_id(self, bulk_id: str, task_id: str, call: ToolCall) -> str:
        if self.control.name == "resolve":
            return resolution_id(bulk_id, task_id, call.id)
        return answer_id(call.id) if self.control.name == "answer" else approval_id(call.id)

    def _is_same(self, item: Item) -> bool:
        """Return True if the stored decision is this one."""
        control = self.control
        match item:
            case ApprovalDecision():
                approves = control.name == "approve"
                return (item.approved, item.reason, item.args) == (approves, control.reason or "", None)
            case ExternalToolResult():
                fails = control.declined or control.error is not None
                return (item.outcome.result.is_error, item.outcome.result.result) == (fails, control.result)
            case UnknownResolution():
                return (item.happened, item.result) == (control.happened, control.result)
            case _:
                return False


def resolution_id(bulk_id: str, task_id: str, call_id: str) -> str:
    """Return the id of the item with which a bulk control resolves a call."""
    return f"b_{sha256(f'{bulk_id}/{task_id}/{call_id}')[:32]}"


def _outcome(live: Snapshot | None, call: ToolCall) -> ToolOutcome | None:
    known = None if live is None else live.calls.get(call.id)
    return None if known is None else known.outcome


def _answered(team: Team, step: TaskStep, live: Snapshot | None) -> set[str]:
    """Return the calls that the coordinator answers itself: they are invalid, or a limit refuses them."""
    is_current = live is not None and live.seq == step.seq + 1
    return set(local_answers(team, live.state, step)) if live is not None and is_current else set()


def _effect(team: Team, step: TaskStep, call: ToolCall) -> str:
    spec = spec_of(team, step, call)
    return "client" if spec is None else spec.effect
