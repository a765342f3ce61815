"""The outcome of a tool call: its result, and the artifacts that it made."""

from typing import Annotated, Literal

from pydantic import Field

from roboco.domain.history.media import Media
from roboco.domain.history.part import Artifact, ToolCall, ToolResult
from roboco.domain.schema import Recorded


class Outcome(Recorded):
    """The result of one tool call and the artifacts to be named beside it.

    `unknown` is set if it is not known whether the call had its effect: with "tell" the agent reads that, with "ask" a
    person resolves it before the agent goes on. With `changed` the call did not run, because its tool differs from the
    one that the task knows, and a person must approve the change. `media` are the files in the result until they are
    stored; they never leave the process. `usage` is the usage of a sub-task: `tokens_in`,
    `tokens_out`, `cost`.
    """

    result: ToolResult
    artifacts: tuple[Artifact, ...] = ()
    unknown: Literal["", "tell", "ask"] = ""
    changed: bool = False
    usage: dict[str, int | float] = {}
    media: Annotated[tuple[Media, ...], Field(exclude=True, repr=False)] = ()


def failure(call_id: str, message: str, runtime_ms: int = 0) -> Outcome:
    """Return an outcome with an error for the agent."""
    result = ToolResult(tool_call_id=call_id, is_error=True, error=message, runtime_ms=runtime_ms)
    return Outcome(result=result)


def success(call: ToolCall, result: object, runtime_ms: int = 0) -> Outcome:
    """Return an outcome with a result and no artifacts."""
    return Outcome(result=ToolResult(tool_call_id=call.id, result=result, runtime_ms=runtime_ms))


def unknown(call_id: str, why: str, on_unknown: Literal["tell", "ask"], runtime_ms: int = 0) -> Outcome:
    """Return the outcome of a call of which it is not known whether it had its effect."""
    message = (
        f"outcome unknown: {why}, and the call may or may not have had its effect; it is not repeated. "
        "Find out what happened before you try again"
    )
    return failure(call_id, message, runtime_ms).model_copy(update={"unknown": on_unknown})


def changed(call: ToolCall, why: str) -> Outcome:
    """Return the outcome of a call that did not run, because a person must approve the change of its tool first."""
    message = f"{why} since the task began; the call did not run, and a person must approve the change"
    return failure(call.id, message).model_copy(update={"unknown": "ask", "changed": True})


def without_effect(call_id: str) -> Outcome:
    """Return the outcome of a call that was lost and is known not to have had its effect."""
    return failure(call_id, "the call was lost before it had its effect; call again if it is still wanted")
