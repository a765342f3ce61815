"""tickets: the place of a turn's request in the rates of its provider, and giving it up."""

from roboco.domain.team import Team
from roboco.engine.engine import Engine
from roboco.ports import Phase, Snapshot, Ticket


def ticket_of(team: Team, task_id: str, task: Snapshot) -> Ticket:
    """Return the ticket of the task's pending turn: another one for each attempt, and after each refusal."""
    return Ticket(task_id, team.name, f"{task.seq}/{task.attempt}/{task.refusals}")


def release(engine: Engine, team: Team, task_id: str, task: Snapshot) -> None:
    """Give up the place of a pending turn that is passed over, so that turns behind it move up.

    Where that is lost, the rates drop the ticket once it does not ask again in time.
    """
    if task.phase is Phase.TURN:
        engine.rates.release(team.profile(team.agent(task.agent)), ticket_of(team, task_id, task))
