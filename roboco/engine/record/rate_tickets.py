"""rate_tickets: the places of a turn's requests in the queues of rate limits, and their release."""

from collections.abc import Iterator

from roboco.domain.prompt.working_memory import summary_end
from roboco.domain.team.context_policy import SummaryContext
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.engine.engine import Services
from roboco.ports.rate_limits import Ticket
from roboco.ports.snapshot import Phase, Snapshot

MAX_SUMMARY_TICKETS = 4
"""The most summaries of a turn, newest first, whose places are released."""


def turn_ticket(team: Team, task_id: str, task: Snapshot) -> Ticket:
    """Return the ticket of the task's pending turn. Each attempt, and each retry after a refusal, has a new one."""
    return Ticket(task_id, team.name, f"{task.position.seq}/{task.attempt.number}/{task.refusals.count}")


def summary_ticket(team: Team, task_id: str, task: Snapshot, until: int) -> Ticket:
    """Return the ticket of the summary before this position that the pending turn needs."""
    return Ticket(task_id, team.name, f"summary/{until}/{task.attempt.number}/{task.refusals.count}")


def summary_profile(team: Team, agent_name: str, policy: SummaryContext) -> tuple[str, ModelProfile]:
    """Return the name and the profile of the model that writes the agent's summaries."""
    agent = team.agent(agent_name)
    name = policy.model or agent.model or team.default_profile or ""
    profile = team.models.get(name) or team.profile(agent)
    return name or profile.model, profile


def release_tickets(services: Services, team: Team, task_id: str, task: Snapshot) -> None:
    """Release the places of a pending turn that is superseded, so that the turns behind it move up.

    If the release is lost, the rate limit drops the ticket, because it does not ask again in time.
    """
    if task.position.phase is Phase.TURN:
        for profile, ticket in _tickets(team, task_id, task):
            services.rate_limiter.release(profile, ticket)


def _tickets(team: Team, task_id: str, task: Snapshot) -> Iterator[tuple[ModelProfile, Ticket]]:
    agent = team.agent(task.position.agent)
    yield team.profile(agent), turn_ticket(team, task_id, task)
    policy = agent.context
    if isinstance(policy, SummaryContext):
        _, profile = summary_profile(team, task.position.agent, policy)
        last = summary_end(policy, task.position.seq)
        for until in range(last, max(0, last - MAX_SUMMARY_TICKETS * policy.steps), -policy.steps):
            yield profile, summary_ticket(team, task_id, task, until)
