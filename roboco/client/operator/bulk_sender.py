"""TaskSender: sends the control of a bulk control to one task, and reports the outcome.

task ─┬─► item ────► id of (bulk id, task id) ──────┐
      ├─► decision ► each matching call ────────────┼─► accepted before? ─► admitted? ─► control ─► outcome
      ├─► fork ────► new id of (bulk id, task id) ──┤    yes: `repeated`                  errors: `failed`
      └─► retry ───► new id of (task id, its end) ──┘

A decision leaves a call that was made after the beginning, since no person has seen it in the count, and one that has a
decision. A call whose tool has changed waits for no such decision: a person reads each change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from roboco.client.operator.bulk_control import DECISIONS, BulkControl
from roboco.client.operator.bulk_report import BulkOutcome
from roboco.client.pending_actions import PendingDecision, WaitingCall, waiting_calls
from roboco.client.task_commands import handle_task_command
from roboco.domain.canonical_json import sha256
from roboco.domain.ids import answer_id, approval_id, qualified_id, retry_id, tenant_of
from roboco.domain.team.team import Team
from roboco.engine.accept.accept_item import stored_item
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import team_as_data
from roboco.errors import AlreadyEnded, RobocoError
from roboco.settings import Settings

MAX_CAUSE_CHARS: Final = 500
"""Characters of a cause at most."""
FindTask = Callable[[str], object]
"""Raises UsageError if there is no task of this id."""
_Outcome = dict[str, Any]
"""The fields of a BulkOutcome so far: those of calls that were decided before a failure stay."""


@dataclass
class TaskSender:
    """Sends a control to tasks, in several threads at a time."""

    engine: Engine
    settings: Settings
    find: FindTask
    control: BulkControl
    team: Team | None
    """The team of new tasks, or None for that of each task."""
    team_of_fork: Callable[[Team, Team | None], Team | None] = lambda _, wanted: wanted
    """Returns the team of a fork from that of its source and the wanted one, or None for that of the source."""
    admit: Callable[[str], None] = lambda _: None
    """Called with the id of a task before it gets its item, and with that of a new task before a fork or retry.

    It raises RobocoError if the caller may not do this.
    """

    def send(self, bulk_id: str, began: datetime, task_id: str) -> BulkOutcome | None:
        """Send the control to the task, and return the outcome, or None if no call waits for the decision."""
        found: _Outcome = {"task_id": task_id, "outcome": "accepted"}
        try:
            self.find(task_id)
            if self.control.name in DECISIONS:
                if not self._decide(bulk_id, began, task_id, found):
                    return None
            elif self.control.name == "fork":
                self._fork(bulk_id, task_id, found)
            elif self.control.name == "retry":
                self._retry(bulk_id, task_id, found)
            else:
                self._send_item(bulk_id, task_id, found)
        except AlreadyEnded:
            found["outcome"] = "ended"
        except (RobocoError, ValueError) as error:
            code = error.code if isinstance(error, RobocoError) else "error"
            found |= {"outcome": "failed", "code": code, "cause": str(error)[:MAX_CAUSE_CHARS]}
        return BulkOutcome.model_validate(found)

    def matching_calls(self, bulk_id: str, began: datetime, task_id: str) -> list[WaitingCall]:
        """Return the calls of the task that wait for the decision.

        Cost: a read of Redis or two, of the newest step, and two reads of the workspace for each call.
        """
        return [
            (step, call, tool)
            for step, call, tool in waiting_calls(self.engine, task_id, cast(PendingDecision, self.control.name))
            if step.created_at <= began
            and self.control.tool in (None, call.tool_name)
            and stored_item(self.engine.workspace, task_id, self._decision_id(bulk_id, task_id, call.id)) is None
        ]

    def _send_item(self, bulk_id: str, task_id: str, found: _Outcome) -> None:
        item_id = found["item_id"] = bulk_item_id(bulk_id, task_id)
        if stored_item(self.engine.workspace, task_id, item_id) is not None:
            found["outcome"] = "repeated"
        else:
            self.admit(task_id)
        self._command(task_id=task_id, item_id=item_id)

    def _decide(self, bulk_id: str, began: datetime, task_id: str, found: _Outcome) -> bool:
        """Decide each matching call. Return False if there is none."""
        found["calls"] = []
        if waiting := self.matching_calls(bulk_id, began, task_id):
            self.admit(task_id)
        for _, call, _ in waiting:
            item_id = self._decision_id(bulk_id, task_id, call.id)
            named = {"item_id": item_id} if self.control.name == "resolve" else {}
            self._command(task_id=task_id, call_id=call.id, **named)
            found["calls"].append(call.id)
        return bool(found["calls"])

    def _fork(self, bulk_id: str, task_id: str, found: _Outcome) -> None:
        new_id = fork_id(bulk_id, task_id)
        if self.engine.workspace.summaries.get(new_id) is None:
            self.admit(new_id)
        team = self.team_of_fork(self.engine.workspace.frozen_teams.get(task_id), self.team)
        if not self._command(task_id=new_id, source=task_id, team=None if team is None else team_as_data(team)):
            found["outcome"] = "repeated"
        found["new_task_id"] = new_id

    def _retry(self, bulk_id: str, task_id: str, found: _Outcome) -> None:
        failed = self.engine.workspace.summaries.require(task_id)
        found["new_task_id"] = failed.retried_as or retry_id(task_id, failed.steps)
        if not failed.retried_as:
            self.admit(found["new_task_id"])
        if failed.retried_as or not self._command(task_id=task_id, item_id=bulk_item_id(bulk_id, task_id)):
            found["outcome"] = "repeated"

    def _command(self, **names_of: Any) -> bool | None:
        """Handle the command of the control, as for one task. Return True if it has created a task."""
        arguments = self.control.arguments() | names_of
        return handle_task_command(self.engine, self.settings, self.control.command, arguments, "")

    def _decision_id(self, bulk_id: str, task_id: str, call_id: str) -> str:
        if self.control.name == "resolve":
            return bulk_item_id(bulk_id, f"{task_id}/{call_id}")
        return answer_id(call_id) if self.control.name == "answer" else approval_id(call_id)


def bulk_item_id(bulk_id: str, name: str) -> str:
    """Return the id of the item that a bulk control sends to a task, or to a call: TASK/CALL."""
    return f"b_{sha256(f'{bulk_id}/{name}')[:32]}"


def fork_id(bulk_id: str, task_id: str) -> str:
    """Return the id of the fork of a task that a bulk control makes."""
    name = f"{_fork_prefix(bulk_id)}{sha256(f'{bulk_id}/{task_id}')[:24]}"
    return qualified_id(tenant_of(task_id) or None, name)


def is_fork(bulk_id: str, task_id: str) -> bool:
    """Return True if the bulk control has made this task, which it must not fork again."""
    return task_id.rpartition(":")[2].startswith(_fork_prefix(bulk_id))


def _fork_prefix(bulk_id: str) -> str:
    return f"fork-{sha256(bulk_id)[:8]}-"
