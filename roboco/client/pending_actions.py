"""PendingActions: the calls and limits for which a waiting task waits."""

from collections.abc import Callable

from roboco.domain.decision.tool_answers import is_client_call, needs_approval, needs_change_approval, needs_resolution
from roboco.domain.history.part import ToolCall
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.ids import answer_id, approval_id, change_id
from roboco.domain.team.tool_difference import ToolDifference
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import stored_item
from roboco.engine.intake.answer import open_tool_changes
from roboco.engine.record.newest_step import newest_step


class PendingActions:
    """The open calls of a task, by the action that each waits for. Each method reads the task as of now."""

    def __init__(self, engine: Engine, task_id: str) -> None:
        self._engine = engine
        self._task_id = task_id

    def unapproved(self) -> list[ToolCall]:
        """Return the calls that a person has to approve or deny, also those whose tool has changed."""
        changed = self._with_outcome(needs_change_approval)
        return [*self._open(self._needs_approval, approval_id), *self._open(lambda call: call.id in changed, change_id)]

    def changes(self) -> dict[str, ToolDifference]:
        """Return how the tools of open calls have changed, by the ids of the calls."""
        return {change.call_id: change for change in open_tool_changes(self._engine, self._task_id)}

    def unanswered(self) -> list[ToolCall]:
        """Return the calls of client tools that have no answer yet."""
        return self._open(is_client_call, answer_id)

    def unknown(self) -> list[ToolCall]:
        """Return the calls with an unknown outcome, of which a person has to say whether they had their effect."""
        unknown = self._with_outcome(lambda outcome: needs_resolution(outcome) and not needs_change_approval(outcome))
        return [call for call in self._newest_calls() if call.id in unknown]

    def at_limit(self) -> bool:
        """Return True if the task is paused at a limit: it continues once the limit is raised."""
        task = self._engine.task_store.load(self._task_id, 1)
        return task is not None and task.state.limit is not None

    def _needs_approval(self, call: ToolCall) -> bool:
        return needs_approval(self._engine.frozen_teams.get(self._task_id), call)

    def _with_outcome(self, matches: Callable[[ToolOutcome | None], bool]) -> set[str]:
        """Return the ids of the open calls whose outcome matches."""
        task = self._engine.task_store.load(self._task_id, 1)
        calls = {} if task is None else task.calls
        return {call_id for call_id, state in calls.items() if matches(state.outcome)}

    def _open(self, matches: Callable[[ToolCall], bool], item_id: Callable[[str], str]) -> list[ToolCall]:
        """Return the matching calls for which the inbox has no item of this id."""
        calls = filter(matches, self._newest_calls())
        return [call for call in calls if stored_item(self._engine, self._task_id, item_id(call.id)) is None]

    def _newest_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the newest step: only these can be open."""
        newest = newest_step(self._engine, self._task_id)
        return () if newest is None else newest.calls
