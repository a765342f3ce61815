"""submission: check what a caller may submit, and find the team of a new task.

    body ─► scopes (teams, notify, priority) ─► team: by name, or its object ─► caller's budget ─► client library

A repetition uses the team that the first request has frozen, so that a team file may change between both.
"""

from typing import Any

from pydantic import JsonValue

from roboco.domain.team.team import Team
from roboco.gateway.budget import limited_team
from roboco.gateway.gateway import Gateway
from roboco.gateway.idempotency import NewTaskId
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import forbidden
from roboco.gateway.rest.models import CreatedTask, ForkTask, NewTask, given_options
from roboco.gateway.teams import frozen_team, named_team, team_of_fork, team_of_new_task

SERVER_FIELDS = ("base_url", "api_key_env", "api_key", "headers")
"""Fields of a model profile that choose the server, and the secrets that it gets."""


def create_task(gateway: Gateway, caller: Principal, body: NewTask, new: NewTaskId) -> CreatedTask:
    """Submit the task, in a thread of `calls`.

    Raise Problem or UsageError if the caller may not, or if the body is wrong.
    """
    check_submission(caller, body)
    team = _team_of_new_task(gateway, caller, body, new)
    options = given_options(body, "team", "prompt", "tenant", "task_id")
    tenant = caller.tenant or body.tenant
    task = gateway.orchestrator.run(team, body.prompt, by=caller.by, task_id=new.task_id, tenant=tenant, **options)
    return CreatedTask(task_id=task.task_id, team=team.name, created=task.created)


def check_submission(caller: Principal, body: NewTask) -> None:
    """Raise Problem `forbidden` if the caller lacks a scope for an option, or may not use the tenant."""
    if body.notify:
        caller.require(Scope.NOTIFY)
    if body.priority == "high":
        caller.require(Scope.PRIORITY)
    if caller.tenant is not None and body.tenant not in (None, caller.tenant):
        raise forbidden(f"this key submits for tenant {caller.tenant!r} alone", "leave tenant out")


def chosen_team(gateway: Gateway, caller: Principal, team: str | dict[str, JsonValue]) -> Team:
    """Return the team that a request names or contains. Raise Problem if the caller may not use it."""
    if isinstance(team, str):
        return named_team(gateway.orchestrator, caller, team)
    caller.require(Scope.TEAMS)
    if caller.teams is not None:
        raise forbidden("this key may use named teams alone", "name a team that GET /v1/teams lists")
    found = gateway.orchestrator.sent_team(team)
    if Scope.OPERATE not in caller.scopes:
        _check_addresses(found)
    _check_functions(caller, found)
    return found


def fork_options(gateway: Gateway, caller: Principal, source: Team, body: ForkTask) -> dict[str, Any]:
    """Return the options of a fork. Its team, or that of its source, is held within the caller's budget."""
    options = given_options(body, "task_id", "team")
    team = None if body.team is None else chosen_team(gateway, caller, body.team)
    limited = team_of_fork(caller, source, team)
    return options if limited is None else options | {"team": limited}


def _team_of_new_task(gateway: Gateway, caller: Principal, body: NewTask, new: NewTaskId) -> Team:
    """Return the team within the caller's budget, or as an earlier request for the task has frozen it."""
    if isinstance(body.team, str):
        return team_of_new_task(gateway.orchestrator, caller, new, body.team)
    wanted = chosen_team(gateway, caller, body.team)
    if new.repeatable and (frozen := frozen_team(gateway.orchestrator, new.task_id)) is not None:
        same = wanted if body.model is None else wanted.with_profile(body.model)
        if frozen.model_copy(update={"limits": same.limits}) == same:
            return frozen
    return limited_team(caller, wanted)


def _check_functions(caller: Principal, team: Team) -> None:
    """Raise Problem `forbidden` if a sent team names a function that the caller's key does not allow."""
    if caller.functions is not None and (other := [name for name in team.functions if name not in caller.functions]):
        raise forbidden(f"this key may not use the function {other[0]!r}", "use a key that allows it")
    for member in team.teams.values():
        _check_functions(caller, member)


def _check_addresses(team: Team) -> None:
    """Raise Problem `forbidden` if a sent team chooses its model server: it could read the operator's keys there."""
    for name, profile in team.models.items():
        if chosen := [field for field in SERVER_FIELDS if getattr(profile, field)]:
            raise forbidden(
                f"models.{name}.{chosen[0]}: only an operator's key may choose it", f"leave out {chosen[0]}"
            )
    for member in team.teams.values():
        _check_addresses(member)
