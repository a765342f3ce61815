"""RecordedCall: a tool call of a recorded history with its result."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.interruption import step_or_interruption_after
from roboco.domain.history.part import ArtifactPart, Part, ToolCall, ToolOutcome, ToolResultPart
from roboco.domain.history.recorded_calls import RecordedCalls, places_of_calls
from roboco.domain.history.step import ANSWER, NOT_RUN, ORCHESTRATOR, RESOLVED_BY, STATE, TOOL_EXECUTOR, TaskStep
from roboco.domain.schema import RecordModel


class RecordedCall(RecordModel):
    """A recorded call and its result."""

    tool: str
    args: dict[str, Any]
    parts: tuple[Part, ...]
    """The result, and the artifacts beside it."""
    resolved: str = ""
    """The id of the inbox item with the result, or ""."""
    resolved_by: str | None = None
    """The caller that sent the item, or None."""
    approval: dict[str, Any] | None = None
    """A person's decision on the call before it ran, or None."""
    closed: bool = False
    """True if the result was no longer needed."""
    not_run: bool = False
    """True if a run of `what-if` did not run the call."""
    usage: dict[str, Any] = {}
    """The usage of sub-tasks."""

    state: dict[str, Any] = {}
    """The values of the task's state that the calls of the step have changed: the last call has them all."""
    answer: dict[str, Any] = {}
    """The answer of a function that is an agent."""

    @property
    def is_external(self) -> bool:
        """Return True if the result is from outside, not only the approval of the call."""
        return self.resolved != "" and (self.approval is None or self.approval.get("item_id") != self.resolved)

    @property
    def denied(self) -> bool:
        """Return True if a person denied the call."""
        return self.approval is not None and not self.approval.get("approved")

    def outcome(self, call: ToolCall) -> ToolOutcome:
        """Return the recorded result as the outcome of this call."""
        results = [part.tool_result for part in self.parts if isinstance(part, ToolResultPart)]
        artifacts = tuple(part.artifact for part in self.parts if isinstance(part, ArtifactPart))
        result = results[0].model_copy(update={"tool_call_id": call.id})
        return ToolOutcome(result=result, artifacts=artifacts).model_copy(
            update={"usage": self.usage, "not_run": self.not_run, "answer": self.answer, "state": self.state}
        )


def _sub_task_usage(step: TaskStep) -> dict[str, Any]:
    """Return the usage of sub-tasks, or of a turn, in a step of results: its usage without the prices of tools."""
    usage = dict(step.metadata.get("usage") or {})
    tools = step.metadata.get("tools") or {}
    if paid := sum(one.get("cost", 0.0) for name, one in tools.items() if name != DELEGATE):
        usage["cost"] = round(usage.get("cost", 0.0) - paid, 9)
    return usage


def recorded_calls(asked: TaskStep, step: TaskStep) -> dict[str, RecordedCall]:
    """Return the calls of a step with their results in the next one, by id."""
    usage = _sub_task_usage(step)
    recorded: dict[str, RecordedCall] = {}
    for call in asked.calls:
        parts = tuple(_parts_of(step, call))
        if not parts:
            continue
        recorded[call.id] = RecordedCall(
            tool=call.tool_name,
            args=call.args,
            parts=parts,
            resolved=(step.metadata.get("resolved") or {}).get(call.id, ""),
            resolved_by=(step.metadata.get(RESOLVED_BY) or {}).get(call.id),
            approval=(step.metadata.get("approvals") or {}).get(call.id),
            not_run=call.id in (step.metadata.get(NOT_RUN) or ()),
            usage=usage if call.tool_name == DELEGATE or asked.begins_function else {},
            state=(step.metadata.get(STATE) or {}) if call is asked.calls[-1] else {},
            answer=step.metadata.get(ANSWER) or {},
        )
        usage = {} if call.tool_name == DELEGATE else usage  # the step holds the sum of several sub-tasks
    return recorded


def _parts_of(step: TaskStep, call: ToolCall) -> Iterator[Part]:
    """Yield the result of the call, and the artifacts that follow it."""
    for index, part in enumerate(step.parts):
        if isinstance(part, ToolResultPart) and part.tool_result.tool_call_id == call.id:
            yield part
            yield from takewhile(lambda one: isinstance(one, ArtifactPart), step.parts[index + 1 :])


def recorded_calls_of(steps: Sequence[TaskStep], seq: int) -> RecordedCalls:
    """Return the outcomes of the calls after this position, for runs of `what-if`.

    Errors before an interruption or an end are left out: it may have closed calls whose results would have come later.
    """
    return RecordedCalls.of(_recorded_outcomes(steps, seq))


def _recorded_outcomes(steps: Sequence[TaskStep], seq: int) -> Iterator[tuple[str, ToolOutcome]]:
    places = places_of_calls(steps[seq + 1 :])
    for asked, step in pairwise(steps):
        if asked.seq <= seq or step.agent_name != TOOL_EXECUTOR:
            continue
        closed = _closes_calls(step_or_interruption_after(steps, step.seq))
        recorded = recorded_calls(asked, step)
        for call in asked.calls:
            outcome = recorded[call.id].outcome(call) if call.id in recorded else None
            if outcome is not None and not (closed and outcome.result.is_error):
                yield places[asked.seq, call.id][0], outcome


def _closes_calls(after: TaskStep | None) -> bool:
    if after is None:
        return False
    ended = after.agent_name == ORCHESTRATOR and after.error is not None
    return ended or after.is_interruption or after.metadata.get("interrupts") is True
