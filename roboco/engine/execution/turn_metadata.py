"""turn_metadata: the metadata of a turn's step: usage and cost, model, timings, prompt, interruption."""

from roboco.domain.usage import Usage
from roboco.engine.execution.request import PreparedRequest
from roboco.engine.execution.summarize import Ready
from roboco.engine.usage import estimated_usage
from roboco.ports.model import Reply


def reply_metadata(prepared: PreparedRequest, reply: Reply) -> dict[str, object]:
    """Return the metadata of a step with a whole reply."""
    cost = prepared.request.profile.cost(reply.tokens_in, reply.tokens_out)
    used = Usage(tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, cost=cost)
    metadata = usage_metadata(prepared.summary, used) | {
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "timings": {"first_token_ms": reply.first_token_ms, "duration_ms": reply.duration_ms},
        "context": prepared.memory.report,
    }
    metadata |= {"limit": reply.limit} if reply.limit else {}
    return metadata | ({"reprompts": reply.reprompts} if reply.reprompts else {})


def usage_metadata(summary: Ready, used: Usage | None = None, estimated: bool = False) -> dict[str, object]:
    """Return the usage of the turn and of its summaries; empty if neither a reply nor a summary was requested.

    The cost is present only if there are prices.
    """
    if used is None and not summary.usage.steps:
        return {}
    made, turn = summary.usage, Usage() if used is None else used
    usage: dict[str, object] = {
        "tokens_in": turn.tokens_in + made.tokens_in,
        "tokens_out": turn.tokens_out + made.tokens_out,
    }
    if cost := made.cost + turn.cost:
        usage["cost"] = round(cost, 9)
    if estimated:
        usage["estimated"] = True
    return {"usage": usage} | summary.metadata()


def interruption_metadata(prepared: PreparedRequest, texts: list[str], receipt: dict[str, object]) -> dict[str, object]:
    """Return the metadata of an interrupted step. Its usage is an estimate: the model reported none."""
    used = estimated_usage(prepared.request.profile, prepared.memory.tokens, texts)
    return usage_metadata(prepared.summary, used, estimated=True) | {
        "interrupted": True,
        "receipt": receipt,
        "context": prepared.memory.report,
        "chunks": len(texts),
    }
