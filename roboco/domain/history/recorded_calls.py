"""RecordedCalls: the outcomes of a task's tool calls by tool and arguments, for runs of `what-if`."""

from collections import Counter
from collections.abc import Iterable

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.history.step import STATE, TaskStep
from roboco.domain.schema import RecordModel

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The largest record of a run, in bytes of JSON."""


class RecordedCalls(RecordModel):
    """The outcomes of calls: those of equal calls are in the order of the calls."""

    outcomes: dict[str, tuple[ToolOutcome, ...]] = {}

    @classmethod
    def of(cls, calls: Iterable[tuple[str, ToolOutcome]]) -> "RecordedCalls":
        """Return the record of the outcomes of calls by their keys, in order."""
        outcomes: dict[str, tuple[ToolOutcome, ...]] = {}
        for key, outcome in calls:
            outcomes[key] = (*outcomes.get(key, ()), outcome)
        return cls(outcomes=outcomes)

    def has(self, call: ToolCall) -> bool:
        """Return True if there is an outcome of an equal call."""
        return call_key(call) in self.outcomes

    def outcome(self, call: ToolCall, key: str, number: int) -> ToolOutcome | None:
        """Return the outcome with the key and this number, from 0, as that of this call. None if there is none."""
        found = self.outcomes.get(key, ())
        if number >= len(found):
            return None
        outcome = found[number]
        result = outcome.result.model_copy(update={"tool_call_id": call.id})
        return outcome.model_copy(update={"result": result, "not_run": True, "usage": {}})


def call_key(call: ToolCall) -> str:
    """Return the key that equal calls have: those of the same tool with the same arguments."""
    return sha256(canonical_json([call.tool_name, call.args]))


def places_of_calls(steps: Iterable[TaskStep]) -> dict[tuple[int, str], tuple[str, int]]:
    """Return the key of each call, and how many equal calls precede it, by the number of its step and its id.

    The turn of a function has no arguments: it hears the conversation. So its key derives from the steps before it.
    """
    places: dict[tuple[int, str], tuple[str, int]] = {}
    seen, said = Counter[str](), ""
    for step in steps:
        for call in step.calls:
            key = sha256(f"{call_key(call)} {said}") if step.begins_function else call_key(call)
            places[step.seq, call.id] = key, seen[key]
            seen[key] += 1
        if not step.is_notice:
            results = [[one.result, one.error] for one in step.results]
            calls = [call_key(call) for call in step.calls]
            about = [step.agent_name, step.text, calls, results, step.metadata.get(STATE)]
            said = sha256(f"{said} {canonical_json(about)}")
    return places
