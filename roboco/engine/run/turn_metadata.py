"""turn_metadata: the metadata of a turn's step: usage and cost, model, timings, prompt, interruption."""

from roboco.domain.history.step import PROVIDER, REASONING
from roboco.domain.usage import ModelUsage
from roboco.engine.run.request import PreparedRequest
from roboco.engine.run.summarize import Ready
from roboco.engine.usage import failed_usage
from roboco.errors import ModelError
from roboco.ports.model import Reply


def reply_metadata(prepared: PreparedRequest, reply: Reply) -> dict[str, object]:
    """Return the metadata of a step with a whole reply."""
    metadata = usage_metadata(prepared, reply.usage) | {
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "timings": {"first_token_ms": reply.first_token_ms, "duration_ms": reply.duration_ms},
        "context": prepared.memory.report,
    }
    optional = {
        "limit": reply.limit,
        "reprompts": reply.reprompts,
        "refusal": reply.refusal,
        REASONING: reply.reasoning,
        PROVIDER: reply.provider,
    }
    return metadata | fallback_metadata(prepared) | {name: value for name, value in optional.items() if value}


def fallback_metadata(prepared: PreparedRequest) -> dict[str, object]:
    """Return the metadata of a turn that another profile than the agent's answers; empty for any other turn."""
    return {"fallback": prepared.fallback} if prepared.fallback else {}


def usage_metadata(prepared: PreparedRequest, used: ModelUsage) -> dict[str, object]:
    """Return the usage of the turn and of its summaries. The cost is present only if there are prices."""
    made, cost = prepared.summary.usage.plus(prepared.spent), prepared.request.profile.cost(used)
    usage = used.metadata()
    usage |= {"tokens_in": used.tokens_in + made.tokens_in, "tokens_out": used.tokens_out + made.tokens_out}
    return {"usage": usage | _cost(made.cost + cost)} | prepared.summary.metadata()


def summary_metadata(summary: Ready) -> dict[str, object]:
    """Return the usage of the summaries of a turn that requests no reply; empty if none was made."""
    made = summary.usage
    if not made.steps:
        return {}
    usage: dict[str, object] = {"tokens_in": made.tokens_in, "tokens_out": made.tokens_out}
    return {"usage": usage | _cost(made.cost)} | summary.metadata()


def _cost(cost: float) -> dict[str, object]:
    return {"cost": round(cost, 9)} if cost else {}


def failure_metadata(prepared: PreparedRequest, error: ModelError, texts: list[str], chunks: int) -> dict[str, object]:
    """Return the metadata of a step whose model call failed."""
    metadata = usage_metadata(prepared, failed_usage(error, prepared.memory.tokens, texts)) | fallback_metadata(
        prepared
    )
    return metadata | {"context": prepared.memory.report, "chunks": chunks}


def interruption_metadata(
    prepared: PreparedRequest, used: ModelUsage, chunks: int, receipt: dict[str, object]
) -> dict[str, object]:
    """Return the metadata of an interrupted step. Its usage is an estimate: the model reported none."""
    return usage_metadata(prepared, used) | {
        "interrupted": True,
        "receipt": receipt,
        "context": prepared.memory.report,
        "chunks": chunks,
    }
