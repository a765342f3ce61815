"""RecordedCalls: the outcomes of a task's tool calls by tool and arguments, for runs of `what-if`."""

from collections.abc import Iterable, Sequence

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.schema import RecordModel

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The largest record of a run, in bytes of JSON."""


class RecordedCalls(RecordModel):
    """The outcomes of calls: those of equal calls are in the order of the calls."""

    outcomes: dict[str, tuple[ToolOutcome, ...]] = {}

    @classmethod
    def of(cls, calls: Iterable[tuple[ToolCall, ToolOutcome]]) -> "RecordedCalls":
        """Return the record of these calls, which are in order."""
        outcomes: dict[str, tuple[ToolOutcome, ...]] = {}
        for call, outcome in calls:
            key = call_key(call)
            outcomes[key] = (*outcomes.get(key, ()), outcome)
        return cls(outcomes=outcomes)

    def has(self, call: ToolCall) -> bool:
        """Return True if there is an outcome of an equal call."""
        return call_key(call) in self.outcomes

    def outcome(self, call: ToolCall, number: int) -> ToolOutcome | None:
        """Return the outcome of the equal call of this number, from 0, as that of this call. None if there is none."""
        found = self.outcomes.get(call_key(call), ())
        if number >= len(found):
            return None
        outcome = found[number]
        result = outcome.result.model_copy(update={"tool_call_id": call.id})
        return outcome.model_copy(update={"result": result, "not_run": True, "usage": {}})


def call_key(call: ToolCall) -> str:
    """Return the key that equal calls have: those of the same tool with the same arguments."""
    return sha256(canonical_json([call.tool_name, call.args]))


def count_equal_calls(earlier: Iterable[TaskStep], calls: Sequence[ToolCall], call: ToolCall) -> int:
    """Return how many equal calls precede a call: in earlier steps, and among the calls of the same step."""
    key = call_key(call)
    before = sum(1 for step in earlier for one in step.calls if call_key(one) == key)
    place = next(index for index, one in enumerate(calls) if one.id == call.id)
    return before + sum(1 for one in calls[:place] if call_key(one) == key)
