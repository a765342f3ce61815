"""Principal: the caller of a request, what it may do, and how the history names it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from roboco.domain.access_key import CallerLimits, Scope
from roboco.domain.ids import is_task_id, tenant_of
from roboco.gateway.problem import Problem, forbidden, not_found

__all__ = ["ACCESS", "ALL_SCOPES", "LOCAL", "Principal", "Scope", "known_scopes"]

ACCESS: Final = "roboco.access"
"""The field of an ASGI scope with the Access of a request."""


@dataclass(frozen=True)
class Principal:
    """An authenticated caller."""

    by: str
    """The identity that histories and the audit log record: `key:ID`, `oidc:SUBJECT`, or `local`."""
    tenant: str | None
    """The tenant whose tasks it reaches, or None for all tasks."""
    scopes: frozenset[Scope]
    teams: frozenset[str] | None = None
    """The names of the teams that it may submit and reach, or None for all."""
    limits: CallerLimits = field(default_factory=CallerLimits)
    """Its own limits or those of the settings, whichever are lower; also the ceilings of its tasks."""
    limited: bool = True
    """Whether requests, streams, tasks and usage count against limits."""
    functions: frozenset[str] | None = None
    """The functions that its team objects may name, or None for all."""
    utility_model: str | None = None
    """The profile that answers its side requests, in teams that have one of this name."""

    @property
    def owner(self) -> str:
        """The owner of its calls, which share threads fairly with those of others: its tenant, or it alone."""
        return self.tenant or self.by

    def require(self, scope: Scope) -> None:
        """Raise Problem `forbidden` unless the caller has the scope."""
        if scope not in self.scopes:
            raise forbidden(f"this key lacks the scope {scope.value!r}", f"use a key that has it: {scope.value}")

    def require_any(self, *scopes: Scope) -> None:
        """Raise Problem `forbidden` unless the caller has one of the scopes."""
        if not self.scopes.intersection(scopes):
            self.require(scopes[0])

    def require_operator(self) -> None:
        """Raise Problem `forbidden` unless the caller has the scope `operate`, for all tenants and all teams."""
        self.require(Scope.OPERATE)
        if self.tenant is not None or self.teams is not None:
            raise forbidden(
                "operations concern all tenants and teams, and this key is limited to some",
                "use a key with the scope operate, and without tenant and teams",
            )

    def task_id(self, task_id: str) -> str:
        """Return the whole id of a task. Another tenant's id raises the same Problem as an unknown one."""
        named = task_id if self.tenant is None or ":" in task_id else f"{self.tenant}:{task_id}"
        if not is_task_id(named) or self.tenant not in (None, tenant_of(named)):
            raise self.unknown_task(task_id)
        return named

    @staticmethod
    def unknown_task(task_id: str) -> Problem:
        """Return the Problem of an unknown task."""
        return not_found(f"no task {task_id[:200]!r}", "list tasks with GET /v1/tasks")


ALL_SCOPES = frozenset(Scope)
LOCAL = Principal("local", None, ALL_SCOPES, limited=False)
"""The caller of a gateway without authentication, which serves this machine alone."""


def known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes of these names. Those that another release knows are left out."""
    wanted = set(names)
    return frozenset(scope for scope in Scope if scope.value in wanted)
