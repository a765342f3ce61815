"""New sessions: a chat, or an agent with the values of its variables. A session is a task that is a conversation.

A request whose answer is lost leaves a session that no client knows: roboto.ai's client sends no key by which the same
request could be recognized, and two equal requests may both be meant. `Idempotency-Key` makes it safe to repeat one.
"""

from typing import Any

from roboco.client.options import SubmitOptions
from roboco.client.task import Task
from roboco.domain.ids import tenant_of
from roboco.domain.team.team import Team
from roboco.gateway.gateway import Gateway
from roboco.gateway.idempotency import new_task_id
from roboco.gateway.principal import Principal
from roboco.gateway.problem import Problem, forbidden, invalid
from roboco.gateway.roboto.goals import synthesized_text
from roboco.gateway.roboto.requests import StartRequest
from roboco.gateway.roboto.sending import message_options
from roboco.gateway.teams import team_of_fork, team_of_new_task

SYSTEM_PROMPT = "system_prompt"
"""The key of the task's context that holds the system prompt of a request."""


async def start_session(
    gateway: Gateway, caller: Principal, team_name: str, request: StartRequest, tenant: str | None, key: str | None
) -> Task:
    """Start a session of a tenant. Raise Problem if the request is wrong, or if the caller has reached a limit."""
    new = new_task_id(tenant, None, key, "roboto", caller.by)

    def submit() -> Task:
        team = team_of_new_task(gateway.orchestrator, caller, new, team_name)
        request.check()
        earlier, prompt = _split(request)
        new_task: SubmitOptions = {"tenant": tenant, "task_id": new.task_id, "conversation": True}
        options: SubmitOptions = {**new_task, **message_options(request, caller.by)}
        if earlier:
            options["history"] = earlier
        if context := _context(team, request.system_prompt or ""):
            options["context"] = context
        if request.model_profile:
            options["model"] = request.model_profile
        return gateway.orchestrator.run(team, prompt, **options)

    return await gateway.create_task(caller, new, submit)


async def fork_session(gateway: Gateway, caller: Principal, task: Task, seq: int) -> Task:
    """Start a session from the messages of another one up to and including `seq`."""
    new = new_task_id(tenant_of(task.task_id) or None, None, None)

    def fork() -> Task:
        team = team_of_fork(caller, task.team())
        return task.fork(seq, team=team, task_id=new.task_id, by=caller.by)

    return await gateway.create_task(caller, new, fork)


def team_of_chats(gateway: Gateway, caller: Principal) -> str:
    """Return the name of the team of new sessions, which the operator has chosen. Raise Problem if there is none."""
    if (name := gateway.settings.roboto_team) is None:
        raise invalid(
            "no team is chosen for new sessions",
            "an operator sets ROBOCO_GATEWAY_ROBOTO_TEAM; or invoke an agent of /v1/ai/agents",
        )
    if caller.teams is not None and name not in caller.teams:
        raise forbidden(f"this key may not use the team {name!r}")
    if name not in gateway.orchestrator.team_names():
        raise Problem(500, "internal", f"the file of team {name!r} is missing", "an operator must restore it")
    return name


def owner(caller: Principal, org_id: str | None) -> str | None:
    """Return the tenant of a new session. Raise Problem if the request names another one than the key's."""
    if caller.tenant is None:
        return org_id or None
    if org_id not in (None, "", caller.tenant):
        raise forbidden(f"X-Roboto-Org-Id {org_id!r:.80} is not the tenant of this key", "leave the header out")
    return caller.tenant


def first_messages(request: StartRequest) -> int:
    """Return the number of messages that the request makes."""
    return len(_split(request)[0]) + 1


def _split(request: StartRequest) -> tuple[list[dict[str, Any]], str]:
    """Return the earlier messages and the prompt: the last message, or the work of the goals."""
    messages = [{"role": message.role, "text": message.text} for message in request.messages]
    if messages and messages[-1]["role"] == "user":
        return messages[:-1], messages[-1]["text"]
    if request.goals:
        return messages, synthesized_text(request.goals)
    raise invalid("messages: the last one must be the user's, unless goals are declared")


def _context(team: Team, system_prompt: str) -> dict[str, Any]:
    """Return the context with the system prompt, which may be empty, if an agent of the team reads it.

    Raise Problem `invalid` if there is a system prompt, and no agent reads it.
    """
    if any(SYSTEM_PROMPT in str(agent.model_dump()) for agent in team.agents):
        return {SYSTEM_PROMPT: system_prompt}
    if system_prompt:
        raise invalid(
            f"system_prompt: team {team.name!r} does not read it",
            f"leave it out, or write {{{{ context.{SYSTEM_PROMPT} }}}} into the prompt of an agent",
        )
    return {}
