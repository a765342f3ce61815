"""bulk_control: the control of a bulk control, checked before the first task gets it, and the reports of its effect."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args

from pydantic import ConfigDict, Field, JsonValue

from roboco.broker import names
from roboco.domain.inbox.submission import parse_message, parse_result
from roboco.domain.limits import LimitOverrides
from roboco.domain.schema import CallerId, InputModel, RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_filter import STATUS_GROUPS, TaskFilter
from roboco.errors import UsageError

_Decision = Literal["approve", "deny", "answer", "resolve"]
ControlName = Literal["stop", "interrupt", "pause", "step", "resume", "limits", "retry", _Decision, "send", "fork"]
DECISIONS: Final = frozenset(get_args(_Decision))
"""The controls that concern waiting tool calls."""
STOP_REASON: Final = "stopped by an operator"
"""The reason of a stop that names none."""
_OPEN: Final = STATUS_GROUPS["open"]


class _Kind(NamedTuple):
    """A kind of control."""

    command: str
    """The command that each task gets."""
    statuses: Set[TaskStatus]
    """The statuses of the tasks that it reaches if its conditions name none."""
    takes: Set[str] = frozenset()
    """The fields of its content."""
    needs: str = ""
    """The field that must be given."""


_WAITS: Final = {TaskStatus.APPROVAL}
_ANSWERED: Final = {TaskStatus.CLIENT_TOOL_TURN, TaskStatus.APPROVAL}
_KINDS: Final[Mapping[ControlName, _Kind]] = MappingProxyType(
    {
        "stop": _Kind(names.STOP_TASK, _OPEN, {"reason"}),
        "interrupt": _Kind(names.INTERRUPT_TASK, {TaskStatus.QUEUED, TaskStatus.RUNNING}),
        "pause": _Kind(names.PAUSE_TASK, _OPEN - {TaskStatus.PAUSED}),
        "step": _Kind(names.STEP_TASK, {TaskStatus.PAUSED}),
        "resume": _Kind(names.RESUME_TASK, {TaskStatus.PAUSED}),
        "limits": _Kind(names.SET_LIMITS_TASK, _OPEN, {"limits"}, "limits"),
        "retry": _Kind(names.RETRY_TASK, {TaskStatus.FAILED}, {"reason", "limits"}),
        "approve": _Kind(names.APPROVE_TASK, _WAITS, {"tool", "reason"}),
        "deny": _Kind(names.DENY_TASK, _WAITS, {"tool", "reason"}),
        "answer": _Kind(names.ANSWER_TASK, _ANSWERED, {"tool", "result", "error", "declined"}),
        "resolve": _Kind(names.RESOLVE_TASK, _WAITS, {"tool", "happened", "result"}, "happened"),
        "send": _Kind(names.SEND_TASK, {TaskStatus.USER_TURN}, {"message", "agent", "if_busy"}, "message"),
        "fork": _Kind(names.FORK_TASK, set(TaskStatus), {"message", "agent", "new_team", "model"}),
    }
)


class BulkContent(InputModel):
    """The content of a bulk control. Each control takes some of the fields."""

    model_config = ConfigDict(strict=True)

    reason: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why tasks are stopped or retried, or calls approved or denied; their histories keep it."""
    limits: LimitOverrides | None = None
    """The new limits, for the controls `limits` and `retry`."""
    tool: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    """The tool whose waiting calls are decided, by `approve`, `deny`, `answer` or `resolve`; by default all tools."""
    result: JsonValue = None
    """The result of each call, for `answer` and `resolve`."""
    error: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why the calls have no result, for `answer`."""
    declined: bool = False
    """True if the client refuses to run the calls, for `answer`."""
    happened: bool | None = None
    """Whether the calls had their effect, for `resolve`."""
    message: str | None = None
    """The message that each task gets, for `send`, or each new task, for `fork`."""
    agent: Annotated[str | None, Field(max_length=64)] = None
    """The agent that answers the message."""
    if_busy: Literal["queue", "interrupt", "reject"] | None = None
    """The treatment of a message while agents or tools run, for `send`; by default that of the team."""
    new_team: str | dict[str, JsonValue] | None = None
    """The team of the new tasks, for `fork`: its name, or with the scope `teams` the object of a team file."""
    model: Annotated[str | None, Field(max_length=64)] = None
    """The model profile of agents that name none, for `fork`."""


class BulkControl(BulkContent):
    """A control with its content."""

    name: ControlName
    by: CallerId | None = None
    """The identity of the caller, which the histories show."""

    @property
    def command(self) -> str:
        """The command that each task gets."""
        return _KINDS[self.name].command

    def arguments(self) -> dict[str, Any]:
        """Return the content as arguments of the command."""
        content = {name: getattr(self, name) for name in _KINDS[self.name].takes - {"tool", "declined", "new_team"}}
        found = {name: value for name, value in content.items() if value is not None} | {"by": self.by}
        if self.limits is not None:
            found["limits"] = self.limits.overrides()
        if self.name == "answer":
            found["status"] = "declined" if self.declined else "success" if self.error is None else "error"
        return {"reason": STOP_REASON, **found} if self.name == "stop" else found

    def check(self) -> None:
        """Raise UsageError if the control has content of another one, or none where it needs some."""
        kind, given = _KINDS[self.name], self.model_dump(exclude={"name", "by"}, exclude_defaults=True)
        if other := sorted(given.keys() - kind.takes):
            raise UsageError(f"{other[0]}: {self.name} takes no {other[0]}")
        limits = self.limits and self.limits.overrides()
        if kind.needs and not (limits if kind.needs == "limits" else kind.needs in given):
            raise UsageError(f"{kind.needs}: {self.name} needs {kind.needs}")
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
        own = frozenset(_KINDS[self.name].statuses)
        if not names_statuses:
            return replace(given, statuses=own)
        if other := sorted(given.statuses - (own if self.name == "retry" else _OPEN)):
            remedy = "failed tasks alone" if self.name == "retry" else "open tasks alone; use open, for example"
            raise UsageError(f"status {other[0].value!r}: {self.name} concerns {remedy}")
        return given


class BulkOutcome(RecordModel):
    """The outcome of a bulk control for one task."""

    task_id: str
    item_id: str = ""
    """The id of the item, for its receipt. A decision on calls, a fork and a retry have none."""
    outcome: Literal["accepted", "repeated", "ended", "failed"]
    """`repeated` if the task had accepted this control before, and `ended` if the task has ended meanwhile."""
    calls: list[str] = []
    """The ids of the calls that have the decision."""
    new_task_id: str = ""
    """The id of the new task of a fork or retry."""
    code: str = ""
    """The kind of the error of a failure, for programs."""
    cause: str = ""
    """The error of a failure."""


class BulkCounts(RecordModel):
    """The number of tasks by their outcome."""

    accepted: int
    """Tasks that have accepted the control; workers apply it. Of a decision, tasks with calls that have got it."""
    repeated: int
    """Tasks that had accepted this control before."""
    ended: int
    """Tasks that have ended meanwhile."""
    failed: int
    """Tasks whose outcome has a cause."""

    @classmethod
    def of(cls, outcomes: Iterable[BulkOutcome]) -> Self:
        """Return the counts of these outcomes."""
        found = Counter[str](one.outcome for one in outcomes)
        return cls.model_validate({name: found[name] for name in cls.model_fields})


class CountedCalls(RecordModel):
    """The calls of one tool that a decision will reach."""

    tool: str
    effect: str
    """The effect of the tool: pure, idempotent, irreversible, or "client" for a tool that the client runs."""
    calls: int


class BulkReport(RecordModel):
    """One page of a bulk control, or its count."""

    bulk_id: str
    """The id of the bulk control: the same id sends the same items."""
    until: datetime
    """The time of the beginning. Send it with the next page, and after a count: later tasks and calls are left."""
    matching: int | None = None
    """The number of tasks of this part of the list that it will reach, of a count."""
    tools: list[CountedCalls] = []
    """The calls that a decision will reach, by tool, of a count."""
    unreadable: int = 0
    """Further tasks, whose calls cannot be read, of a count."""
    counts: BulkCounts
    outcomes: list[BulkOutcome]
    cursor: str
    """The cursor of the next page, or "" after the last one. A page may be empty and have a cursor."""
    complete: bool
    """False if tasks may be left, as while the list of tasks is rebuilt from the workspace."""
