"""LoopDetector: detects loops of agents: the same call with the same result, or hand-offs without work in between."""

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep
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

    open_calls: dict[str, tuple[str, str]] = {}
    """The calls of the last step by id: tool name and digest of the arguments."""
    repeats: dict[str, tuple[str, int]] = {}
    """For each call with its result, by digest: the tool name, and how often it happened."""
    handoffs: int = 0
    """The number of consecutive hand-offs."""
    agents: tuple[str, ...] = ()
    """The agents of the last hand-offs."""

    def after(self, step: TaskStep) -> "LoopDetector":
        """Return the detector's state after one more step."""
        if step.agent_name == USER:
            return LoopDetector()
        if step.agent_name == TOOL_EXECUTOR:
            return self.model_copy(update={"open_calls": {}, "repeats": self._repeats(step)})
        if not step.by_agent:
            return self
        asked = {
            call.id: (call.tool_name, sha256(canonical_json([call.tool_name, call.args]))[:16]) for call in step.calls
        }
        others = [call for call in step.calls if call.tool_name != HANDOFF_RULE]
        idle = not others and len(step.text) < MIN_WORK_CHARS
        handed = (step.metadata.get("routing") or {}).get("rule") == HANDOFF_RULE
        return LoopDetector(
            open_calls=asked,
            repeats=self.repeats,
            handoffs=self.handoffs + 1 if handed and idle else 0,
            agents=tuple(dict.fromkeys((step.agent_name, *self.agents)))[:4] if handed and idle else (),
        )

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

    def _repeats(self, step: TaskStep) -> dict[str, tuple[str, int]]:
        repeats = dict(self.repeats)
        judged = step.metadata.get("approvals") or {}
        for result in step.results:
            name, asked = self.open_calls.get(result.tool_call_id, (CLIENT_PREFIX, ""))
            denied = (judged.get(result.tool_call_id) or {}).get("approved") is False
            if name.startswith(CLIENT_PREFIX) or denied:  # a client or person has answered each time
                continue
            same = sha256(canonical_json([asked, result.is_error, result.error, result.result]))[:16]
            _, times = repeats.pop(same, (name, 0))
            repeats[same] = (name, times + 1)
        return dict(list(repeats.items())[-MAX_COUNTED_CALLS:])
