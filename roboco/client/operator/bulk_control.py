"""BulkControl: the control that a bulk control sends to each task, checked before the first task gets it."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.limits import LimitOverrides
from roboco.domain.schema import CallerId, InputModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_filter import STATUS_GROUPS, TaskFilter
from roboco.errors import UsageError

ControlName = Literal["stop", "interrupt", "pause", "step", "resume", "limits", "retry"]
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
    }
)
"""The statuses of the tasks that a control reaches if its conditions name none."""


class BulkControl(InputModel):
    """A control with its content."""

    model_config = ConfigDict(strict=True, frozen=True)

    name: ControlName
    reason: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    """Why tasks are stopped or retried; their histories keep it."""
    limits: LimitOverrides | None = None
    """The new limits, also those of a retry."""
    by: CallerId | None = None
    """The identity of the caller, which the histories show."""

    def check(self) -> None:
        """Raise UsageError if the control has content of another one, or none where it needs some."""
        has_limits = bool(self.limits and self.limits.overrides())
        if self.name != "retry" and (self.name == "limits") != has_limits:
            raise UsageError(f"limits: {self.name} {'needs' if self.name == 'limits' else 'takes no'} limits")
        if self.name not in ("stop", "retry") and self.reason is not None:
            raise UsageError(f"reason: {self.name} takes no reason, only stop and retry do")

    def wanted(self, given: TaskFilter, names_statuses: bool) -> TaskFilter:
        """Return the conditions on the tasks, with the control's own statuses if they name none.

        Raise UsageError if they name a status that the control does not concern: one in which tasks have ended, but for
        a retry any other than `failed`.
        """
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
