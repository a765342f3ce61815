"""LiveView: a task's stream as a person reads it, printed as it arrives.

On a terminal, lines are broken between words. While nothing arrives, a status line names the running work.
"""

import json
import time
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from roboco.cli.interactive.receipts import describe_connection_end
from roboco.cli.interactive.tool_text import answer_text
from roboco.cli.interactive.tool_view import INDENT, ToolView
from roboco.cli.terminal.format import agent_usage, cost_suffix, counted, plain_reason
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.domain.decision.decide import STOPPED
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.history.interruption import INTERRUPTED_BY_USER
from roboco.domain.history.step import ORCHESTRATOR, USER, TaskStep
from roboco.domain.recorded.step_events import orchestrator_event
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import (
    AgentHandedOff,
    AgentSelected,
    ErrorOccurred,
    StatusChanged,
    StreamReset,
    SubTaskStarted,
    TaskEnded,
    TaskStarted,
    ToolUnknown,
    TurnRestarted,
    UserInterrupted,
    UserMessageAdded,
)
from roboco.domain.stream.item import ItemData, StepFinal, StreamItem, TextPartDelta, ToolCallItem, ToolResultItem

_COLOURS = ("cyan", "magenta", "green", "blue", "yellow", "bright_red")
_USER_ACTION_STATUSES = (TaskStatus.APPROVAL, TaskStatus.CLIENT_TOOL_TURN)
"""Waits that a message of the user does not end as it is meant."""
_MAX_REASON_CHARS = 240
"""Characters of a reason or a name that are shown."""


class LiveView:
    """Prints items in their order. The content of a step that no earlier item showed is printed with the step.

    Below the result of a call, the lines of its exception in `failures` are printed. The status line ends with `hint`.
    Items of other tasks than `task_id` are those of sub-tasks. Their texts are printed with their steps.
    """

    def __init__(
        self,
        screen: Screen,
        failures: Mapping[str, CallFailure] = MappingProxyType({}),
        hint: str = "",
        task_id: str = "",
    ) -> None:
        self._screen = screen
        self._task_id = task_id
        self._tools = ToolView(screen, failures)
        self._hint = hint
        self._work = ""
        self._work_since = 0.0
        self._colours: dict[str, str] = {}
        self._text_step_id = ""
        self._text_so_far = ""
        self._attempt = 1
        self._printed_keys: set[str] = set()
        self._last_user_message = ""
        self._typed_answers: list[str] = []
        self._agent = ""
        self._function = ""  # the agent whose turn has begun with a call of its code; its answer needs no further title
        self._was_interjected = False
        self._is_stopping = False
        self._holds_text = False  # it may be a typed answer: its step says so, and has the value
        self._error = ""  # the message of the last error
        self._reason = ""  # of the last status: a turn that waits repeats it
        self._task_started_at: datetime | None = None

    def show(self, item: StreamItem) -> None:
        """Print the item."""
        if self._is_stopping and not isinstance(item.data, UserInterrupted | ErrorOccurred | TaskEnded):
            return
        if item.task_id and item.task_id != self._task_id:
            self._of_sub_task(item)
            return
        match item.data:
            case TextPartDelta() as delta:
                self._text(delta)
            case ToolCallItem() as call:
                self._tools.show_running_call(call.part.tool_call, call.agent_name)
                self._begin_work(self._tools.running)
            case ToolResultItem() as result:
                self._tools.show_result(result.part.tool_result)
                self._begin_work(self._tools.running or "deciding")
            case StepFinal() as final:
                self._held_text(final.step)
                self._remaining_parts(final.step)
            case event:
                self._event(event)

    def _of_sub_task(self, item: StreamItem) -> None:
        """Print a step of an agent of a sub-task, or why the sub-task waits."""
        match item.data:
            case StepFinal(step=step) if step.by_agent and not step.begins_function:
                self._title(step.agent_name, f"sub-task {item.task_id}", self._colour(step.agent_name))
                self._screen.write(answer_text(step))
                self._remaining_parts(step)
                self.note_interjection()
            case StatusChanged() as event if event.status.waiting:
                self._note(f"sub-task {item.task_id} {_status_with_reason(event.status, event.reason)}", "yellow")
            case _:
                pass

    def show_status(self, cause: str = "") -> None:
        """Show the running work, or the cause for which it does not go on, and its duration in the status line."""
        if self._work:
            seconds = time.monotonic() - self._work_since
            self._screen.status(f"   {cause or self._work} · {seconds:.0f} s{self._hint}")

    def step(self, step: TaskStep) -> None:
        """Print a step of a history, whole."""
        if step.by_agent:
            if step.agent_name == self._function:
                self._function = ""
            else:
                self._label(step.agent_name, step.step_id, str((step.metadata.get("routing") or {}).get("reason", "")))
            self._screen.write(answer_text(step))
        elif step.agent_name == ORCHESTRATOR and step.error is None:
            self._note(orchestrator_event(step))
        self._remaining_parts(step)

    def note_step(self, step: TaskStep) -> None:
        """Note a step before those that are printed."""
        self._tools.note_calls(step.calls)

    def note_typed(self, answer: str) -> None:
        """Note an answer that the user has typed to a question of the team: it is on the terminal already."""
        self._typed_answers.append(answer)

    def note_stop(self) -> None:
        """Note that the user stops the task: from now on only its end is printed."""
        self._is_stopping = True

    def note_interjection(self) -> None:
        """Note that something else was printed: the agent is named again before its next text."""
        self._was_interjected = True

    def _event(self, event: ItemData) -> None:
        match event:
            case TaskStarted():
                self._task_started_at = event.timestamp
                self._screen.line(("task ", "dim"), event.task_id, (f" · team {event.team}", "dim"))
                self._begin_work("starting")
            case AgentSelected():
                self._label(event.agent_name, event.step_id, event.reason)
                self._begin_work(f"{one_line(event.agent_name, 40)} is thinking")
            case AgentHandedOff():
                self._note(
                    f"{event.from_agent} hands off to {event.to_agent}: {one_line(event.reason, _MAX_REASON_CHARS)}"
                )
            case UserMessageAdded():
                self._last_user_message = event.text
                self._user(event.step_id, event.text)
            case StatusChanged():
                self._status(event)
            case TaskEnded():
                self._begin_work("")
                self._ended(event)
            case _:
                self._disruption(event)

    def _status(self, event: StatusChanged) -> None:
        """Print a new status. That a task runs is plain from its output, unless there is a reason."""
        self._begin_work("" if event.status.waiting else "starting")
        if event.status is not TaskStatus.RUNNING or event.reason not in ("", self._reason):
            self._note(
                _status_with_reason(event.status, event.reason),
                "yellow" if event.status in _USER_ACTION_STATUSES else "dim",
            )
        self._reason = event.reason
        self._tool_changes(event)

    def _tool_changes(self, event: StatusChanged) -> None:
        for change in event.changes:
            for part in change.parts:
                self._note(f"{change.tool}: {part.part} was {part.before or 'unknown to the task'}")
                self._note(f"{change.tool}: {part.part} now {part.after}", "yellow")

    def _disruption(self, event: ItemData) -> None:
        match event:
            case UserInterrupted():
                self._interrupted(event)
            case TurnRestarted():
                made = counted(event.attempt - 1, "attempt")
                fate = f"ends after {made} (" if event.replaced else f"starts again (attempt {event.attempt}, "
                self._note(f"{fate}discard the text above): {event.reason}", "yellow")
                self._attempt, self._text_so_far, self._holds_text = event.attempt, "", False
            case StreamReset():
                self._note(f"set up again from the workspace, which holds {counted(event.steps, 'step')}", "yellow")
            case ToolUnknown():
                self._note(f"{event.tool_name}: {event.reason}", "yellow")
            case SubTaskStarted():
                self._note(f"sub-task {event.sub_task_id} of team {event.team}")
            case ErrorOccurred():
                self._show_error(event.code, event.message)
            case _:
                self._note(event.type)

    def _text(self, delta: TextPartDelta) -> None:
        if delta.step_id != self._text_step_id and delta.agent_name == self._function:
            self._text_step_id, self._text_so_far, self._function = delta.step_id, "", ""
        elif delta.step_id != self._text_step_id:
            self._label(delta.agent_name, delta.step_id, "")
        if delta.attempt != self._attempt:
            self._note(f"starts again (attempt {delta.attempt}, discard the text above)", "yellow")
            self._attempt, self._text_so_far, self._holds_text = delta.attempt, "", False
        text = delta.text.lstrip(" ") if self._was_interjected else delta.text
        self._repeat_label(delta.agent_name)
        if self._holds_text or (not self._text_so_far.strip() and delta.text.lstrip().startswith(("{", "["))):
            self._holds_text = True
            self._begin_work(f"{one_line(delta.agent_name, 40)} is writing")
            return
        if delta.replace and not text.startswith(self._text_so_far):
            self._note("once more, whole (discard the text above)", "yellow")
        elif delta.replace:
            text = text.removeprefix(self._text_so_far)
        self._text_so_far = delta.text if delta.replace else self._text_so_far + text
        self._screen.write(text)
        self._begin_work(f"{one_line(delta.agent_name, 40)} is writing")

    def _held_text(self, step: TaskStep) -> None:
        """Print the text of the step if it was held back."""
        if step.by_agent and self._holds_text:
            self._holds_text = False
            self._screen.write(answer_text(step))

    def _repeat_label(self, name: str) -> None:
        """Name the agent again if something else was printed within its text."""
        if self._was_interjected:
            self._was_interjected = False
            self._title(name, "continues", self._colour(name))

    def _interrupted(self, event: UserInterrupted) -> None:
        """Print how the work was interrupted. A message that interrupted it is printed already."""
        if self._last_user_message[: len(event.reason)] == event.reason:
            reason = f"interrupts {one_line(self._agent, 40) or 'the task'}"
        else:
            said = "" if event.reason == INTERRUPTED_BY_USER else "interrupted: "
            reason = f"{said}{one_line(event.reason, _MAX_REASON_CHARS)}"
        closed = describe_connection_end(event.receipt)
        between = " · " if closed else ""
        self._screen.paragraph((f"   {reason}", "yellow"), (f"{between}{closed}", "dim"), indent=INDENT)

    def _remaining_parts(self, step: TaskStep) -> None:
        """Print the content of the step, except an agent's text, as far as it was not printed yet."""
        if step.interrupted:
            self._note("(interrupted)", "red")
        if step.agent_name == USER:
            self._user(step.step_id, step.text)
        if step.begins_function:
            self._tools.note_turn(step.calls)
            self._function = step.agent_name
        else:
            self._tools.show_calls(step.calls)
        for result in step.results:
            self._tools.show_result(result)
        self._changed_arguments(step)
        for artifact in step.artifacts:
            self._note(f"file {artifact.name} · {artifact.mime_type} · {artifact.size} bytes")
        if step.metadata.get("finish_reason") == "length":
            self._note(f"cut off here: the answer has reached {step.metadata.get('limit') or 'its max_tokens'}")
        if step.error is not None and step.error.code != STOPPED:
            self._show_error(step.error.code, step.error.message)

    def _show_error(self, code: str, message: str) -> None:
        self._error = message
        self._note(f"error {code}: {message}", "red")

    def _changed_arguments(self, step: TaskStep) -> None:
        """Print the arguments of calls for which a person approved other ones than the agent had asked for."""
        for call_id, verdict in (step.metadata.get("approvals") or {}).items():
            if (args := verdict.get("args")) is not None:
                self._note(
                    f"a person approved {self._tools.name_of(call_id)} with: {json.dumps(args, ensure_ascii=False)}"
                )

    def _label(self, name: str, step_id: str, reason: str) -> None:
        self._text_step_id, self._text_so_far, self._attempt, self._was_interjected = step_id, "", 1, False
        self._holds_text = False
        self._agent = name
        self._title(name, reason, self._colour(name))

    def _colour(self, name: str) -> str:
        return self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])

    def _user(self, step_id: str, text: str) -> None:
        if not self._is_new(step_id):
            return
        if text in self._typed_answers:
            self._typed_answers.remove(text)
            return
        self._title("you", "", "default")
        self._screen.write(text)

    def _begin_work(self, work: str) -> None:
        if work != self._work:
            self._work, self._work_since = work, time.monotonic()

    def _ended(self, event: TaskEnded) -> None:
        colour = "green" if event.status is TaskStatus.COMPLETED else "red"
        self._title(event.status, "" if event.reason == self._error else event.reason, colour)
        self._note(self._usage(event))
        if len(event.agents) > 1:
            for name, spent in event.agents.items():
                self._note(f"{name}: {agent_usage(spent)}")

    def _usage(self, event: TaskEnded) -> str:
        used = event.usage
        tokens = f"{used.get('tokens_in', 0)} tokens in, {used.get('tokens_out', 0)} out"
        facts = [f"{used.get('steps', 0)} steps", f"{tokens}{cost_suffix(used.get('cost', 0.0))}"]
        if self._task_started_at is not None:
            facts.append(f"{(event.timestamp - self._task_started_at).total_seconds():.1f} s")
        return " · ".join(facts)

    def _title(self, name: str, reason: str, colour: str) -> None:
        self._function = ""
        self._screen.blank()
        why = f" · {one_line(plain_reason(reason), _MAX_REASON_CHARS)}" if reason else ""
        self._screen.paragraph(("── ", colour), (name, f"bold {colour}"), (why, "dim"), indent=INDENT)

    def _note(self, text: str, style: str = "dim") -> None:
        self._screen.paragraph((f"   {one_line(text, 2 * _MAX_REASON_CHARS)}", style), indent=INDENT)

    def _is_new(self, key: str) -> bool:
        new = key not in self._printed_keys
        self._printed_keys.add(key)
        return new


def _status_with_reason(status: TaskStatus, reason: str) -> str:
    return f"{status}: {one_line(reason, _MAX_REASON_CHARS)}" if reason else str(status)
