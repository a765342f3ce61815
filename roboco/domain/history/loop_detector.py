"""LoopDetector: detects loops of agents: the same call with the same result, or hand-offs without work in between."""

from collections.abc import Collection, Iterable, Sequence

from pydantic import Field

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.part import ToolCall, ToolResult
from roboco.domain.limits import Limits
from roboco.domain.schema import RecordModel

MAX_COUNTED_CALLS = 64
"""The number of different calls that are counted, newest first."""
MIN_WORK_CHARS = 200
"""The number of characters from which an agent's text beside a hand-off counts as work."""
HANDOFF_RULE = "handoff"
"""The rule by which an agent acts after a hand-off to it."""


class LoopDetector(RecordModel):
    """The repetitions since the last message of the user."""

    open_calls: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """The calls of the last step by id: tool name and digest of the arguments."""
    repeats: dict[str, tuple[str, int]] = Field(default_factory=dict)
    """For each call with its result, by digest: the tool name, and how often it happened."""
    handoffs: int = 0
    """The number of consecutive hand-offs."""
    agents: tuple[str, ...] = ()
    """The agents of the last hand-offs."""

    def after_turn(self, agent_name: str, text: str, calls: Sequence[ToolCall], rule: str | None) -> "LoopDetector":
        """Return the detector's state after a turn of this agent, to which this rule led."""
        asked = {call.id: (call.tool_name, sha256(canonical_json([call.tool_name, call.args]))[:16]) for call in calls}
        others = [call for call in calls if call.tool_name != HANDOFF_RULE]
        idle_handoff = rule == HANDOFF_RULE and not others and len(text) < MIN_WORK_CHARS
        return LoopDetector(
            open_calls=asked,
            repeats=self.repeats,
            handoffs=self.handoffs + 1 if idle_handoff else 0,
            agents=tuple(dict.fromkeys((agent_name, *self.agents)))[:4] if idle_handoff else (),
        )

    def after_results(self, results: Iterable[ToolResult], denied: Collection[str]) -> "LoopDetector":
        """Return the detector's state after these results. `denied` are the ids of the calls that a person denied."""
        repeats = dict(self.repeats)
        for result in results:
            name, asked = self.open_calls.get(result.tool_call_id, (CLIENT_PREFIX, ""))
            if name.startswith(CLIENT_PREFIX) or result.tool_call_id in denied:  # a client or person answered each time
                continue
            same = sha256(canonical_json([asked, result.is_error, result.error, result.result]))[:16]
            _, times = repeats.pop(same, (name, 0))
            repeats[same] = (name, times + 1)
        newest = dict(list(repeats.items())[-MAX_COUNTED_CALLS:])
        return self.model_copy(update={"open_calls": {}, "repeats": newest})

    def detect(self, limits: Limits) -> str | None:
        """Return a description of the task's loop, or None if there is none."""
        if limits.max_repeats:
            for name, times in self.repeats.values():
                if times >= limits.max_repeats:
                    return (
                        f"{name} was called {times} times with the same arguments and had the same result each time, "
                        f"max_repeats is {limits.max_repeats}"
                    )
        if limits.max_handoffs and self.handoffs >= limits.max_handoffs:
            names = " and ".join(sorted(self.agents))
            return (
                f"{names} handed off {self.handoffs} times in a row with nothing done in between, "
                f"max_handoffs is {limits.max_handoffs}"
            )
        return None
