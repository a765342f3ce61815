"""observe: what operators are told of a turn that has become a step."""

from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.engine.engine import Engine
from roboco.ports import Doing
from roboco.ports.telemetry import COST, TOKENS, TURN_SECONDS


def observe_turn(engine: Engine, doing: Doing, model: str, step: TaskStep, seconds: float) -> None:
    """Tell how long the turn took, and what it has used, with the summaries that were made for it."""
    usage: dict[str, Any] = step.metadata.get("usage") or {}
    tokens_in, tokens_out = int(usage.get("tokens_in", 0)), int(usage.get("tokens_out", 0))
    note = engine.telemetry.note
    note(TURN_SECONDS, seconds, model)
    note(TOKENS, tokens_in, "in", model)
    note(TOKENS, tokens_out, "out", model)
    note(COST, float(usage.get("cost", 0.0)), model)
    doing.tell(tokens_in=tokens_in, tokens_out=tokens_out)
    if step.error is not None:
        doing.tell(error=step.error.code or "error")
    elif step.metadata.get("interrupted"):
        doing.tell(finish_reason="interrupted")
