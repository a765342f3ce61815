"""LoopGuard: detects loops of agents: the same call with the same result, or hand-offs without work in between."""

from roboco.domain.builtin_tools import CLIENT
from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.limits import Limits
from roboco.domain.schema import Recorded

KEPT = 64
"""The number of different calls that are counted, newest first."""
WORK = 200
"""The number of characters from which an agent's text beside a hand-off counts as work."""
HANDED_OFF = "handoff"
"""The rule by which an agent acts after a hand-off to it."""


class LoopGuard(Recorded):
    """The repetitions since the last message of the user."""

    open: dict[str, tuple[str, str]] = {}
    """The calls of the last step by id: tool name and digest of the arguments."""
    repeats: dict[str, tuple[str, int]] = {}
    """For each call with its result, by digest: the tool name, and how often it happened."""
    handoffs: int = 0
    """The number of consecutive hand-offs."""
    between: tuple[str, ...] = ()
    """The agents of the last hand-offs."""

    def after(self, step: TaskStep) -> "LoopGuard":
        """Return the detector's state after one more step."""
        if step.agent_name == USER:
            return LoopGuard()
        if step.agent_name == TOOL_EXECUTOR:
            return self.model_copy(update={"open": {}, "repeats": self._repeats(step)})
        if not step.by_agent:
            return self
        asked = {call.id: (call.tool_name, sha256(canonical([call.tool_name, call.args]))[:16]) for call in step.calls}
        others = [call for call in step.calls if call.tool_name != HANDED_OFF]
        idle = not others and len(step.text) < WORK
        handed = (step.metadata.get("routing") or {}).get("rule") == HANDED_OFF
        return LoopGuard(
            open=asked,
            repeats=self.repeats,
            handoffs=self.handoffs + 1 if handed and idle else 0,
            between=tuple(dict.fromkeys((step.agent_name, *self.between)))[:4] if handed and idle else (),
        )

    def caught(self, limits: Limits) -> str | None:
        """Return a description of the task's loop, or None if there is none."""
        if limits.max_repeats:
            for name, times in self.repeats.values():
                if times >= limits.max_repeats:
                    return (
                        f"{name} was called {times} times with the same arguments and had the same result each time, "
                        f"max_repeats is {limits.max_repeats}"
                    )
        if limits.max_handoffs and self.handoffs >= limits.max_handoffs:
            names = " and ".join(sorted(self.between))
            return (
                f"{names} handed off {self.handoffs} times in a row with nothing done in between, "
                f"max_handoffs is {limits.max_handoffs}"
            )
        return None

    def _repeats(self, step: TaskStep) -> dict[str, tuple[str, int]]:
        repeats = dict(self.repeats)
        judged = step.metadata.get("approvals") or {}
        for result in step.results:
            name, asked = self.open.get(result.tool_call_id, (CLIENT, ""))
            denied = (judged.get(result.tool_call_id) or {}).get("approved") is False
            if name.startswith(CLIENT) or denied:  # a client or person has answered each time
                continue
            same = sha256(canonical([asked, result.is_error, result.error, result.result]))[:16]
            _, times = repeats.pop(same, (name, 0))
            repeats[same] = (name, times + 1)
        return dict(list(repeats.items())[-KEPT:])
