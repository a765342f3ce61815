"""Retention: the rules by which ended tasks are removed, some time after their end.

A rule is a text of conditions and one action: `tenant=acme status=failed|cancelled delete=7d`. The first rule whose
conditions a task meets decides about it. A task that meets no rule is kept.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from roboco.domain.ids import check_tenant, tenant_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.errors import UsageError

_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}
_ENDED: Final = tuple(status for status in TaskStatus if status.ended)
_ACTIONS: Final = ("keep", "delete")
_NAMES: Final = frozenset({*_ACTIONS, "tenant", "team", "status"})
_EXAMPLE: Final = "tenant=acme status=failed delete=30d"


@dataclass(frozen=True)
class RetentionRule:
    """A rule: its conditions, and the action for ended tasks that meet them."""

    text: str
    """The rule as it was written."""
    action: Literal["keep", "delete"]
    age: timedelta = timedelta()
    """The time since the end of a task after which the action is due."""
    tenant: str | None = None
    """The tenant, "" for tasks without one, or None for all tasks."""
    team: str | None = None
    statuses: frozenset[TaskStatus] = frozenset(_ENDED)

    def covers(self, summary: TaskSummary) -> bool:
        """Return True if the ended task meets the conditions."""
        return (
            summary.status in self.statuses
            and self.tenant in (None, tenant_of(summary.task_id))
            and self.team in (None, summary.team)
        )


def due_rule(rules: Sequence[RetentionRule], summary: TaskSummary, now: datetime) -> RetentionRule | None:
    """Return the rule whose action is due for the task, or None if the task stays for now."""
    if not summary.status.ended:
        return None
    rule = next((rule for rule in rules if rule.covers(summary)), None)
    is_due = rule is not None and rule.action != "keep" and now - summary.updated_at >= rule.age
    return rule if is_due else None


def parse_rule(text: str) -> RetentionRule:
    """Return the rule. Raise UsageError, with the mistake and the remedy, if the text is none."""
    fields = _fields(text)
    action = _action(text, fields)
    rule = RetentionRule(
        text, "keep", tenant=fields.get("tenant"), team=fields.get("team"), statuses=_statuses(text, fields)
    )
    if action == "keep":
        return rule
    return replace(rule, action="delete", age=_age(text, fields["delete"]))


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name in fields:
            raise _mistake(text, f"{name!r} is given twice")
        if name not in _NAMES:
            raise _mistake(text, f"{name!r} is unknown; write tenant, team, status, and keep or delete")
        fields[name] = value
    if fields.get("tenant"):
        check_tenant(fields["tenant"])
    if fields.get("team") == "":
        raise _mistake(text, "team= names no team")
    return fields


def _action(text: str, fields: dict[str, str]) -> str:
    actions = [name for name in _ACTIONS if name in fields]
    if len(actions) != 1:
        raise _mistake(text, f"it has {len(actions)} actions; write keep or delete=AGE")
    if fields.get("keep"):
        raise _mistake(text, "keep has no value: it keeps tasks for ever")
    return actions[0]


def _statuses(text: str, fields: dict[str, str]) -> frozenset[TaskStatus]:
    names = fields["status"].split("|") if "status" in fields else list(_ENDED)
    known = [status.value for status in _ENDED]
    for name in names:
        if name not in known:
            raise _mistake(text, f"status {name!r} is not one of an ended task: {', '.join(known)}")
    return frozenset(map(TaskStatus, names))


def _age(text: str, value: str) -> timedelta:
    if (found := _AGE.fullmatch(value)) is None:
        raise _mistake(text, f"age {value!r} cannot be read: write hours, days or weeks, such as 12h, 30d or 8w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _mistake(text: str, mistake: str) -> UsageError:
    return UsageError(f"rule {text!r}: {mistake}; an example: {_EXAMPLE!r}")
