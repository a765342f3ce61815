"""What a tool call came to: its result, and the artifacts that it made."""

from roboco.domain.part import Artifact, Recorded, ToolCall, ToolResult


class Outcome(Recorded):
    """The result of one tool call and the artifacts to be named beside it."""

    result: ToolResult
    artifacts: tuple[Artifact, ...] = ()


def failure(call_id: str, message: str, runtime_ms: int = 0) -> Outcome:
    """An outcome that tells the agent what went wrong."""
    result = ToolResult(tool_call_id=call_id, is_error=True, error=message, runtime_ms=runtime_ms)
    return Outcome(result=result)


def success(call: ToolCall, result: object, runtime_ms: int = 0) -> Outcome:
    """An outcome with a result and no artifacts."""
    return Outcome(result=ToolResult(tool_call_id=call.id, result=result, runtime_ms=runtime_ms))
