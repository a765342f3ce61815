"""ToolView: tool calls and results on the screen. The results of parallel calls of one tool name their arguments."""

from collections.abc import Mapping, Sequence

from roboco.cli.interactive.tool_text import call_text, result_lines
from roboco.cli.terminal.sanitize import one_line, strip_control
from roboco.cli.terminal.screen import Screen
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.history.part import ToolCall, ToolResult

INDENT = 5
"""Columns by which further lines are indented."""
MAX_FRAME_CHARS = 240
"""Characters of a line of an exception that are shown."""


class ToolView:
    """Prints each call and each result once. The lines of a call's exception in `failures` follow its result."""

    def __init__(self, screen: Screen, failures: Mapping[str, CallFailure]) -> None:
        self._screen = screen
        self._failures = failures
        self._calls: dict[str, ToolCall] = {}
        self._finished: set[str] = set()
        self._turns: set[str] = set()
        self._running: dict[str, str] = {}
        self._repeated: set[str] = set()

    @property
    def running(self) -> str:
        """The tools that run now, as a sentence; "" if none does."""
        names = ", ".join(dict.fromkeys(one_line(name, 30) for name in self._running.values()))
        return f"{names} {'run' if len(self._running) > 1 else 'runs'}" if names else ""

    def name_of(self, call_id: str) -> str:
        """Return the name of the call's tool, or the id of a call that is not known."""
        return self._calls[call_id].tool_name if call_id in self._calls else call_id

    def note_calls(self, calls: Sequence[ToolCall]) -> None:
        """Note the calls of a step without printing them."""
        names = [call.tool_name for call in calls]
        self._repeated |= {call.id for call in calls if names.count(call.tool_name) > 1}
        self._calls |= {call.id: call for call in calls}

    def note_turn(self, calls: Sequence[ToolCall]) -> None:
        """Note the call that is the turn of an agent that is a function. It is printed only if it fails."""
        self.note_calls(calls)
        self._turns |= {call.id for call in calls}

    def show_calls(self, calls: Sequence[ToolCall]) -> None:
        """Print the calls of a step that are not printed yet."""
        new = [call for call in calls if call.id not in self._calls]
        self.note_calls(calls)
        for call in new:
            self._screen.paragraph((f"   → {call_text(call)}", "yellow"), indent=INDENT)

    def show_running_call(self, call: ToolCall, agent: str) -> None:
        """Print a call of the agent that runs now. If the call has the name of the agent, its step decides."""
        if call.tool_name != agent:
            self.show_calls((call,))
        beside = {call_id for call_id, name in self._running.items() if name == call.tool_name}
        self._repeated |= {*beside, call.id} if beside else set()
        self._running[call.id] = call.tool_name

    def show_result(self, result: ToolResult) -> None:
        """Print the result of a call, if it is not printed yet."""
        call_id = result.tool_call_id
        if call_id in self._finished:
            return
        self._finished.add(call_id)
        self._running.pop(call_id, None)
        if call_id in self._turns and not result.is_error:
            return
        colour = "red" if result.is_error else "green"
        first, *rest = result_lines((result.error or "error") if result.is_error else result.result)
        head = " · ".join(filter(None, (self._title(call_id), _took(result.runtime_ms))))
        self._screen.paragraph((f"   ← {head} · " if head else "   ← ", "dim"), (first, colour), indent=INDENT)
        for line in rest:
            self._screen.paragraph((f"     {line}", colour), indent=INDENT)
        failure = self._failures.get(call_id)
        for line in () if failure is None else failure.lines:
            self._screen.line((f"       {strip_control(line)[:MAX_FRAME_CHARS]}", "dim"))

    def _title(self, call_id: str) -> str:
        """Return the name of the call's tool, with its arguments if another call of the tool runs beside it."""
        call = self._calls.get(call_id)
        if call is None:
            return ""
        return call_text(call) if call_id in self._repeated else call.tool_name


def _took(milliseconds: int) -> str:
    """Return the duration for people, or "" if it is shorter than a millisecond."""
    if milliseconds < 1:
        return ""
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
