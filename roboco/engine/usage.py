"""usage: the tokens and the cost of a turn's replies, also of replies that were never finished, and their metrics.

A model reports the usage of a whole reply. Where it reports none, because the reply ended early, its worker died or the
turn was cancelled, the usage is an estimate from the request and the received text. The next committed step of the task
is charged for the unfinished replies of earlier attempts at the same turn.
"""

from collections.abc import Sequence
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.tokens import estimate_tokens
from roboco.domain.usage import UNFINISHED_USAGE, ModelUsage, Usage
from roboco.engine.engine import Services
from roboco.errors import ModelError
from roboco.ports.task_store import Snapshot
from roboco.ports.telemetry import COST, TOKENS, TURN_SECONDS, OperationSpan


def unfinished_usage(team: Team, task: Snapshot) -> Usage:
    """Return the estimated usage of unfinished replies to the pending turn."""
    used = task.attempt.unfinished_usage
    if used.tokens_in + used.tokens_out == 0:
        return Usage()
    cost = team.profile(team.agent(task.position.agent)).cost(ModelUsage(used.tokens_in, used.tokens_out))
    return Usage(tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=cost)


def unfinished_usage_metadata(team: Team, task: Snapshot) -> dict[str, object]:
    """Return the metadata that charges the next step for unfinished replies; empty if there are none."""
    spent = unfinished_usage(team, task)
    if not spent.tokens:
        return {}
    cost = {"cost": round(spent.cost, 9)} if spent.cost else {}
    used = {"agent": task.position.agent, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out}
    return {UNFINISHED_USAGE: used | cost}


def usage_at(profile: ModelProfile, used: ModelUsage) -> Usage:
    """Return the usage of a model call, with its cost by this profile."""
    return Usage(tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=profile.cost(used))


def failed_usage(error: ModelError, tokens_in: int = 0, texts: Sequence[str] = ()) -> ModelUsage:
    """Return the usage of the requests of a call that failed, as far as the provider has received them."""
    used = ModelUsage(error.tokens_in, error.tokens_out, estimated=bool(error.tokens_in or error.tokens_out))
    return or_estimate(used, tokens_in, texts) if texts else used


def or_estimate(used: ModelUsage, tokens_in: int, texts: Sequence[str]) -> ModelUsage:
    """Return the usage of a reply that ended early, or an estimate from its prompt and texts if it has none."""
    if used.tokens_in or used.tokens_out:
        return used
    return ModelUsage(tokens_in, estimate_tokens("".join(texts)), estimated=True)


def record_turn_metrics(services: Services, doing: OperationSpan, model: str, step: TaskStep, seconds: float) -> None:
    """Record the duration and the usage of the turn, with the summaries that were made for it."""
    usage: dict[str, Any] = step.metadata.get("usage") or {}
    tokens_in, tokens_out = int(usage.get("tokens_in", 0)), int(usage.get("tokens_out", 0))
    note = services.telemetry.record
    note(TURN_SECONDS, seconds, model)
    note(TOKENS, tokens_in, "in", model)
    note(TOKENS, tokens_out, "out", model)
    note(COST, float(usage.get("cost", 0.0)), model)
    doing.annotate(tokens_in=tokens_in, tokens_out=tokens_out)
    if step.error is not None:
        doing.annotate(error=step.error.code or "error")
    elif step.metadata.get("interrupted"):
        doing.annotate(finish_reason="interrupted")
