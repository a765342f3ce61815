"""broken: what answers have used that broke before their turn was done, which the next step is charged with.

A worker died in the middle of them, or their model did. What they sent and said is an estimate.
"""

from roboco.domain.team.team import Team
from roboco.domain.usage import BROKEN, Spent
from roboco.ports import Snapshot


def spent_on(team: Team, task: Snapshot) -> Spent:
    """What answers to the pending turn have used that broke."""
    used = task.used
    if used.tokens_in + used.tokens_out == 0:
        return Spent()
    cost = team.profile(team.agent(task.agent)).cost(used.tokens_in, used.tokens_out)
    return Spent(tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=cost)


def charged(team: Team, task: Snapshot) -> dict[str, object]:
    """What the metadata of the next step says of them."""
    spent = spent_on(team, task)
    if not spent.tokens:
        return {}
    cost = {"cost": round(spent.cost, 9)} if spent.cost else {}
    used = {"agent": task.agent, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out}
    return {BROKEN: used | cost}
