"""Waits: what a waiting task waits for, and how it goes on."""

from collections.abc import Callable

from roboco.domain.decision.tool_answers import is_changed, is_client, needs_approval, waits_for_person
from roboco.domain.history.part import ToolCall
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import ToolDifference
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import stored
from roboco.engine.intake.answer import answer_id, change_id, open_changes, verdict_id


class Waits:
    """What the open calls of a team's task wait for."""

    def __init__(self, engine: Engine, team: Team, task_id: str) -> None:
        self._engine = engine
        self._team = team
        self._task_id = task_id

    def unapproved(self) -> list[ToolCall]:
        """The calls that need approval, or whose tool has changed, and of which no person has judged that yet."""
        changed = self._with_outcome(is_changed)
        asked = self._open(lambda call: needs_approval(self._team, call), verdict_id)
        return [*asked, *self._open(lambda call: call.id in changed, change_id)]

    def changes(self) -> dict[str, ToolDifference]:
        """How the tools of open calls have changed, by the ids of the calls."""
        return {change.call_id: change for change in open_changes(self._engine, self._task_id)}

    def unanswered(self) -> list[ToolCall]:
        """The calls of client tools that have no answer yet."""
        return self._open(is_client, answer_id)

    def unknown(self) -> list[ToolCall]:
        """The calls of which a person must say whether they had their effect."""
        asked = self._with_outcome(lambda outcome: waits_for_person(outcome) and not is_changed(outcome))
        return [call for call in self._calls() if call.id in asked]

    def how_to_go_on(self, status: TaskStatus, alone: bool) -> str:
        """What the user can do for the task; `alone`: its workers end with this command."""
        task_id = self._task_id
        again = f"run it again with --id {task_id} on a terminal"
        match status:
            case TaskStatus.APPROVAL if calls := self.unapproved():
                call, more = _named(calls)
                judge = f"roboco approve {task_id} {call}, or roboco deny {task_id} {call}{more}"
                see = f"; roboco why {task_id} shows how a tool has changed" if self.changes() else ""
                return again if alone else f"{judge}{see}"
            case TaskStatus.APPROVAL:
                call, more = _named(self.unknown())
                return f"roboco resolve {task_id} {call} --happened, or --did-not-happen{more}"
            case TaskStatus.CLIENT_TOOL_TURN:
                call, more = _named(self.unanswered())
                return f"roboco answer {task_id} {call} --result JSON{more}"
            case TaskStatus.PAUSED if self._at_limit():
                raised = f"roboco raise {task_id} with a higher limit, such as --max-steps"
                return f"{raised}; then {again}" if alone else raised
            case TaskStatus.PAUSED:
                return f"roboco resume {task_id}"
            case _:
                return again if alone else f"roboco send {task_id} MESSAGE"

    def _with_outcome(self, test: Callable[[Outcome | None], bool]) -> set[str]:
        """The ids of the open calls whose outcome passes the test."""
        task = self._engine.board.load(self._task_id, 1)
        calls = {} if task is None else task.calls
        return {call_id for call_id, state in calls.items() if test(state.outcome)}

    def _at_limit(self) -> bool:
        """Whether a limit keeps the task from going on."""
        task = self._engine.board.load(self._task_id, 1)
        return task is not None and task.state.limit is not None

    def _open(self, kind: Callable[[ToolCall], bool], item_id: Callable[[str], str]) -> list[ToolCall]:
        calls = filter(kind, self._calls())
        return [call for call in calls if stored(self._engine, self._task_id, item_id(call.id)) is None]

    def _calls(self) -> tuple[ToolCall, ...]:
        """The calls of the newest step, which are open as long as it is that."""
        newest: tuple[ToolCall, ...] = ()
        for step in self._engine.histories.read(self._task_id):
            newest = step.calls
        return newest


def _named(calls: list[ToolCall]) -> tuple[str, str]:
    """The id of the only call; or a word that stands for each of them, and which there are."""
    if len(calls) == 1:
        return calls[0].id, ""
    told = ", ".join(f"{call.id} ({call.tool_name})" for call in calls)
    return "CALL", f"; calls: {told}" if told else ""
