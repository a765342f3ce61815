"""turn_metadata: the metadata of a turn's step: usage and cost, model, timings, prompt, interruption."""

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.tokens import estimate_tokens
from roboco.engine.execution.request import Composed
from roboco.engine.execution.summarize import Minutes
from roboco.ports import Reply


def completed(composed: Composed, reply: Reply) -> dict[str, object]:
    """Return the metadata of a step with a whole answer."""
    told = usage_of(composed.minutes, composed.request.profile, reply.tokens_in, reply.tokens_out) | {
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "timings": {"first_token_ms": reply.first_token_ms, "duration_ms": reply.duration_ms},
        "context": composed.memory.receipt,
    }
    told |= {"limit": reply.limit} if reply.limit else {}
    return told | ({"reprompts": reply.reprompts} if reply.reprompts else {})


def usage_of(
    minutes: Minutes,
    profile: ModelProfile | None = None,
    tokens_in: int = 0,
    tokens_out: int = 0,
    estimated: bool = False,
) -> dict[str, object]:
    """Return what the turn used, with its summaries; the cost only if there are prices."""
    made = minutes.spent
    usage: dict[str, object] = {"tokens_in": tokens_in + made.tokens_in, "tokens_out": tokens_out + made.tokens_out}
    if cost := made.cost + (0.0 if profile is None else profile.cost(tokens_in, tokens_out)):
        usage["cost"] = round(cost, 9)
    if estimated:
        usage["estimated"] = True
    used = profile is not None or made.steps
    return {"usage": usage} | minutes.charged() if used else {}


def interrupted(composed: Composed, texts: list[str], receipt: dict[str, object]) -> dict[str, object]:
    """Return the metadata of an interrupted step. Its usage is an estimate: the model reported none."""
    used = composed.memory.tokens, estimate_tokens("".join(texts))
    return usage_of(composed.minutes, composed.request.profile, *used, estimated=True) | {
        "interrupted": True,
        "receipt": receipt,
        "context": composed.memory.receipt,
        "chunks": len(texts),
    }
