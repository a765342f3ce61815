"""TaskSender: sends the control of a bulk control to one task, and reports the outcome.

task ─┬─► item ────► id of (bulk id, task id) ──────┐
      ├─► decision ► each matching call ────────────┼─► accepted before? ─► admitted? ─► control ─► outcome
      └─► fork ────► new id of (bulk id, task id) ──┘    yes: `repeated`                  errors: `failed`
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from roboco.adapters.celery import names
from roboco.client.operator.bulk_calls import CallFinder, MatchingCall, resolution_id
from roboco.client.operator.bulk_control import DECISIONS, BulkControl, ControlName
from roboco.client.operator.bulk_cursor import BulkCursor
from roboco.client.operator.bulk_report import BulkOutcome
from roboco.client.task_commands import handle_task_command
from roboco.domain.canonical_json import sha256
from roboco.domain.ids import qualified_id, tenant_of
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import team_as_data
from roboco.engine.intake.accept_item import stored_item
from roboco.errors import AlreadyEnded, RobocoError, TransientError
from roboco.settings import Settings

STOP_REASON: Final = "stopped by an operator"
"""The reason of a stop that names none."""
MAX_CAUSE_CHARS: Final = 500
"""Characters of a cause at most."""
FindTask = Callable[[str], object]
"""Raises UsageError if there is no task of this id."""
TeamOfFork = Callable[[Team, Team | None], Team | None]
"""Returns the team of a fork from that of its source and the wanted one, or None for that of the source."""
_Outcome = dict[str, Any]
"""The fields of a BulkOutcome so far: those of calls that were decided before a failure stay."""


class TaskSender:
    """Sends a control to tasks, in several threads at a time."""

    def __init__(
        self, engine: Engine, settings: Settings, find: FindTask, control: BulkControl, team: Team | None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._find = find
        self._control = control
        self._team = team
        self._calls = CallFinder(engine, control)
        self.team_of_fork: TeamOfFork | None = None
        """Called before a fork, if it is set."""
        self.admit: Callable[[str], None] = lambda _: None
        """Called with the id of a task before it gets its item, and with that of a new task before a fork.

        It raises RobocoError if the caller may not do this.
        """

    def waiting_calls(self, at: BulkCursor, task_id: str) -> list[MatchingCall] | None:
        """Return the calls of the task that wait for the decision, or None if they cannot be read."""
        try:
            found = self._calls.calls(at.bulk_id, task_id, at.began)
        except TransientError:
            raise
        except (RobocoError, ValueError):
            return None
        return [call for call in found if not call.is_decided]

    def send(self, at: BulkCursor, task_id: str) -> BulkOutcome | None:
        """Send the control to the task, and return the outcome, or None if no call of the task matches."""
        found: _Outcome = {"task_id": task_id, "outcome": "accepted"}
        try:
            if self._control.name in DECISIONS:
                if not self._decide(at, task_id, found):
                    return None
            elif self._control.name == "fork":
                self._fork_task(at, task_id, found)
            else:
                self._send_item(at, task_id, found)
        except AlreadyEnded:
            found["outcome"] = "ended"
        except (RobocoError, ValueError) as error:
            code = error.code if isinstance(error, RobocoError) else "error"
            found |= {"outcome": "failed", "code": code, "cause": str(error)[:MAX_CAUSE_CHARS]}
        return BulkOutcome.model_validate(found)

    def _send_item(self, at: BulkCursor, task_id: str, found: _Outcome) -> None:
        item_id = found["item_id"] = bulk_item_id(at.bulk_id, task_id)
        self._find(task_id)
        if stored_item(self._engine, task_id, item_id) is not None:
            found["outcome"] = "repeated"
        else:
            self.admit(task_id)
        self._command({"task_id": task_id, "item_id": item_id})

    def _decide(self, at: BulkCursor, task_id: str, found: _Outcome) -> bool:
        """Decide each matching call. Return False if there is none."""
        self._find(task_id)
        calls = self._calls.calls(at.bulk_id, task_id, at.began)
        decided = found["calls"] = [call.call_id for call in calls if call.is_decided]
        if len(decided) == len(calls):
            found["outcome"] = "repeated"
            return bool(calls)
        self.admit(task_id)
        for call in calls:
            if not call.is_decided:
                item_id = resolution_id(at.bulk_id, task_id, call.call_id)
                named = {"item_id": item_id} if self._control.name == "resolve" else {}
                self._command({"task_id": task_id, "call_id": call.call_id, **named})
                decided.append(call.call_id)
        return True

    def _fork_task(self, at: BulkCursor, task_id: str, found: _Outcome) -> None:
        self._find(task_id)
        new_id, team = fork_id(at.bulk_id, task_id), self._team
        if self._engine.summaries.get(new_id) is None:
            self.admit(new_id)
        if self.team_of_fork is not None:
            team = self.team_of_fork(self._engine.frozen_teams.get(task_id), team)
        other_team = {} if team is None else {"team": team_as_data(team)}
        if not self._command({"task_id": new_id, "source": task_id, **other_team}):
            found["outcome"] = "repeated"
        found["new_task_id"] = new_id

    def _command(self, names_of: dict[str, Any]) -> bool | None:
        """Handle the command of the control, as for one task. Return True if it has created a task."""
        content = _ARGUMENTS.get(self._control.name, _nothing)
        arguments = {**content(self._control), **names_of, "by": self._control.by}
        return handle_task_command(self._engine, self._settings, _COMMANDS[self._control.name], arguments, "")


def bulk_item_id(bulk_id: str, task_id: str) -> str:
    """Return the id of the item that a bulk control sends to a task."""
    return f"b_{sha256(f'{bulk_id}/{task_id}')[:32]}"


def fork_id(bulk_id: str, task_id: str) -> str:
    """Return the id of the fork of a task that a bulk control makes."""
    name = f"{_fork_prefix(bulk_id)}{sha256(f'{bulk_id}/{task_id}')[:24]}"
    return qualified_id(tenant_of(task_id) or None, name)


def is_fork(bulk_id: str, task_id: str) -> bool:
    """Return True if the bulk control has made this task, which it must not fork again."""
    return task_id.rpartition(":")[2].startswith(_fork_prefix(bulk_id))


def _fork_prefix(bulk_id: str) -> str:
    return f"fork-{sha256(bulk_id)[:8]}-"


def _nothing(_: BulkControl) -> dict[str, Any]:
    return {}


def _overrides(control: BulkControl) -> dict[str, Any]:
    return {} if control.limits is None else control.limits.overrides()


def _answer(control: BulkControl) -> dict[str, Any]:
    status = "declined" if control.declined else "success" if control.error is None else "error"
    return {"result": control.result, "error": control.error, "status": status}


def _fork(control: BulkControl) -> dict[str, Any]:
    given = {"message": control.message, "agent": control.agent, "model": control.model}
    return {name: value for name, value in given.items() if value is not None}


_ARGUMENTS: Final[Mapping[ControlName, Callable[[BulkControl], dict[str, Any]]]] = MappingProxyType(
    {
        "stop": lambda control: {"reason": control.reason or STOP_REASON},
        "limits": lambda control: {"limits": _overrides(control)},
        "retry": lambda control: {"reason": control.reason or "", "limits": _overrides(control)},
        "approve": lambda control: {"reason": control.reason or ""},
        "deny": lambda control: {"reason": control.reason or ""},
        "answer": _answer,
        "resolve": lambda control: {"happened": control.happened, "result": control.result},
        "send": lambda control: {"message": control.message, "agent": control.agent, "if_busy": control.if_busy},
        "fork": _fork,
    }
)
"""The content of a control as arguments of its command. The other controls have none."""
_COMMANDS: Final[Mapping[ControlName, str]] = MappingProxyType(
    {
        "stop": names.STOP_TASK,
        "interrupt": names.INTERRUPT_TASK,
        "pause": names.PAUSE_TASK,
        "step": names.STEP_TASK,
        "resume": names.RESUME_TASK,
        "limits": names.SET_LIMITS_TASK,
        "retry": names.RETRY_TASK,
        "approve": names.APPROVE_TASK,
        "deny": names.DENY_TASK,
        "answer": names.ANSWER_TASK,
        "resolve": names.RESOLVE_TASK,
        "send": names.SEND_TASK,
        "fork": names.FORK_TASK,
    }
)
"""The commands of the controls."""
