"""The outcome of a tool call: its result, and the artifacts that it made."""

from typing import Annotated, Any, Literal

from pydantic import Field

from roboco.domain.history.part import Artifact, Media, ToolCall, ToolResult
from roboco.domain.schema import RecordModel


class ToolOutcome(RecordModel):
    """The outcome of one tool call."""

    result: ToolResult
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts that are listed beside the result."""
    unknown: Literal["", "tell", "ask"] = ""
    """The policy if it is unknown whether the call had its effect, else "".

    With the default policy the agent reads that; with "ask" a person resolves it before the agent continues.
    """
    changed: bool = False
    """True if the call did not run because its tool changed during the task. A person must approve the change."""
    not_run: bool = False
    """True in a run of `what-if` if the outcome is a recorded one, or a refusal: it costs nothing."""
    state: dict[str, Any] = {}
    """The values of the task's state that the tool changes."""
    answer: dict[str, Any] = {}
    """The answer of a function that is an agent: `text`, `output`, and `calls` with `name` and `args`."""
    failed_before: tuple[str, ...] = ()
    """The exceptions after which the tool ran again within the call, oldest first."""
    usage: dict[str, int | float] = {}
    """The usage of a sub-task: `tokens_in`, `tokens_out`, `cost`."""
    media: Annotated[tuple[Media, ...], Field(exclude=True, repr=False)] = ()
    """The files in the result until they are stored; they never leave the process."""


def failed_outcome(call_id: str, message: str, runtime_ms: int = 0) -> ToolOutcome:
    """Return an outcome with an error for the agent."""
    result = ToolResult(tool_call_id=call_id, is_error=True, error=message, runtime_ms=runtime_ms)
    return ToolOutcome(result=result)


def successful_outcome(call: ToolCall, result: object, runtime_ms: int = 0) -> ToolOutcome:
    """Return an outcome with a result and no artifacts."""
    return ToolOutcome(result=ToolResult(tool_call_id=call.id, result=result, runtime_ms=runtime_ms))


def unknown_outcome(call_id: str, why: str, on_unknown: Literal["tell", "ask"], runtime_ms: int = 0) -> ToolOutcome:
    """Return the outcome of a call whose effect is unknown."""
    message = (
        f"outcome unknown: {why}, and the call may or may not have had its effect; it is not repeated. "
        "Find out what happened before you try again"
    )
    return failed_outcome(call_id, message, runtime_ms).model_copy(update={"unknown": on_unknown})


def changed_tool_outcome(call: ToolCall, why: str) -> ToolOutcome:
    """Return the outcome of a call that did not run, because a person must approve the change of its tool first."""
    message = f"{why} since the task began; the call did not run, and a person must approve the change"
    return failed_outcome(call.id, message).model_copy(update={"unknown": "ask", "changed": True})


def not_executed_outcome(call_id: str) -> ToolOutcome:
    """Return the outcome of a call that was lost and certainly did not have its effect."""
    return failed_outcome(call_id, "the call was lost before it had its effect; call again if it is still wanted")
