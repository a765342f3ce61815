"""BulkControl: the control that a bulk control sends to each task, checked before the first task gets it."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.inbox.submission import parse_message, parse_result
from roboco.domain.limits import LimitOverrides
from roboco.domain.schema import CallerId, InputModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_filter import STATUS_GROUPS, TaskFilter
from roboco.errors import UsageError

ControlName = Literal[
    "stop",
    "interrupt",
    "pause",
    "step",
    "resume",
    "limits",
    "retry",
    "approve",
    "deny",
    "answer",
    "resolve",
    "send",
    "fork",
]
DECISIONS: Final[frozenset[ControlName]] = frozenset({"approve", "deny", "answer", "resolve"})
"""The controls that concern waiting tool calls."""
_OPEN: Final = STATUS_GROUPS["open"]
STATUSES: Final[Mapping[ControlName, frozenset[TaskStatus]]] = MappingProxyType(
    {
        "stop": _OPEN,
        "interrupt": frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING}),
        "pause": _OPEN - {TaskStatus.PAUSED},
        "step": frozenset({TaskStatus.PAUSED}),
        "resume": frozenset({TaskStatus.PAUSED}),
        "limits": _OPEN,
        "retry": frozenset({TaskStatus.FAILED}),
        "approve": frozenset({TaskStatus.APPROVAL}),
        "deny": frozenset({TaskStatus.APPROVAL}),
        "resolve": frozenset({TaskStatus.APPROVAL}),
        "answer": frozenset({TaskStatus.CLIENT_TOOL_TURN, TaskStatus.APPROVAL}),
        "send": frozenset({TaskStatus.USER_TURN}),
        "fork": frozenset(TaskStatus),
    }
)
"""The statuses of the tasks that a control reaches if its conditions name none."""
_CONTENT: Final[Mapping[ControlName, frozenset[str]]] = MappingProxyType(
    {
        "stop": frozenset({"reason"}),
        "limits": frozenset({"limits"}),
        "retry": frozenset({"reason", "limits"}),
        "approve": frozenset({"tool", "reason"}),
        "deny": frozenset({"tool", "reason"}),
        "answer": frozenset({"tool", "result", "error", "declined"}),
        "resolve": frozenset({"tool", "happened", "result"}),
        "send": frozenset({"message", "agent", "if_busy"}),
        "fork": frozenset({"message", "agent", "new_team", "model"}),
    }
)
"""The fields that a control takes. The others take none."""


class BulkControl(InputModel):
    """A control with its content."""

    model_config = ConfigDict(strict=True, frozen=True)

    name: ControlName
    reason: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why tasks are stopped or retried, or calls decided; their histories keep it."""
    limits: LimitOverrides | None = None
    """The new limits, also those of a retry."""
    by: CallerId | None = None
    """The identity of the caller, which the histories show."""
    tool: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    """The tool whose waiting calls are decided; None for all."""
    result: JsonValue = None
    """The result of each call that is answered, or that had its effect."""
    error: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why the calls that are answered have no result."""
    declined: bool = False
    """True if the client refuses to run the calls."""
    happened: bool | None = None
    """Whether the calls with an unknown outcome had their effect."""
    message: str | None = None
    """The message that each task, or each new task, gets."""
    agent: Annotated[str | None, Field(max_length=64)] = None
    """The agent that answers the message."""
    if_busy: Literal["queue", "interrupt", "reject"] | None = None
    """The treatment of a message while agents or tools run; by default that of the team."""
    new_team: str | None = None
    """The digest of the team of the new tasks, or None for that of each task."""
    model: Annotated[str | None, Field(max_length=64)] = None
    """The model profile of the agents of new tasks."""

    def check(self) -> None:
        """Raise UsageError if the control has content of another one, or none where it needs some."""
        given = self.model_dump(exclude={"name", "by"}, exclude_defaults=True)
        if other := sorted(given.keys() - _CONTENT.get(self.name, frozenset())):
            raise UsageError(f"{other[0]}: {self.name} takes no {other[0]}")
        overrides = self.limits and self.limits.overrides()
        needed = {
            "limits": ("limits", overrides),
            "resolve": ("happened", self.happened),
            "send": ("message", self.message),
        }
        field, value = needed.get(self.name, ("", True))
        if value is None or value == {}:
            raise UsageError(f"{field}: {self.name} needs {field}")
        self._check_content()

    def _check_content(self) -> None:
        if self.name == "answer" and (self.result is None) is (self.error is None and not self.declined):
            raise UsageError("result: answer needs a result, or else an error or declined")
        if self.result is not None and self.happened is False:
            raise UsageError("result: calls that did not happen have no result")
        if self.agent is not None and self.message is None:
            raise UsageError("agent: it answers a message, and none is given")
        if self.message is not None:
            parse_message(self.message)
        parse_result(self.result)

    def wanted(self, given: TaskFilter, names_statuses: bool) -> TaskFilter:
        """Return the conditions on the tasks, with the control's own statuses if they name none.

        A fork concerns tasks of all statuses, and runs of what-if only if they are asked for. Raise UsageError if they
        name a status that the control does not concern: one in which tasks have ended, but for a retry any other than
        `failed`.
        """
        if self.name == "fork":
            return replace(given, what_if=bool(given.what_if))
        if not names_statuses:
            return replace(given, statuses=STATUSES[self.name])
        if self.name == "retry":
            if other := sorted(given.statuses - STATUSES[self.name]):
                raise UsageError(f"status {other[0].value!r}: retry concerns failed tasks alone; leave status out")
            return given
        if ended := sorted(given.statuses - _OPEN):
            raise UsageError(f"status {ended[0].value!r}: {self.name} concerns open tasks alone; use open, for example")
        return given

    def digest(self, wanted: TaskFilter) -> str:
        """Return the digest of this control of these tasks, apart from times and the caller."""
        teams = None if wanted.teams is None else sorted(wanted.teams)
        conditions = [sorted(wanted.statuses), wanted.tenant, teams, wanted.text, wanted.what_if]
        content = self.model_dump(mode="json", exclude={"by"})
        return sha256(canonical_json([content, conditions]))[:8]
