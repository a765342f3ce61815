"""PendingActions: the calls and limits for which a waiting task waits."""

from collections.abc import Iterator
from typing import Literal

from roboco.domain.decision.tool_answers import (
    local_answers,
    needs_approval,
    needs_change_approval,
    needs_resolution,
    spec_of,
    waits_for_client,
)
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import answer_id, approval_id, change_id
from roboco.domain.team.team import Team
from roboco.domain.team.tool_listing import ToolDifference
from roboco.domain.team.tool_spec import ToolDeclaration
from roboco.engine.accept.accept_item import stored_item
from roboco.engine.accept.answer import open_tool_changes
from roboco.engine.accept.sub_tasks import asks, open_sub_tasks
from roboco.engine.engine import Engine
from roboco.engine.record.recover import newest_step

WaitingCall = tuple[TaskStep, ToolCall, ToolDeclaration | None]
"""A call with its step and its tool, which is None if the client runs it."""
PendingDecision = Literal["approve", "deny", "answer", "resolve", "change"]
"""The decision of a person or client for which a call waits; `change` is about a tool that has changed."""


class PendingActions:
    """The open calls of a task and of its open sub-tasks, by the action that each waits for.

    A call of a sub-task can be decided at the task, too. Each method reads the tasks as of now.
    """

    def __init__(self, engine: Engine, task_id: str) -> None:
        self._engine = engine
        self._task_id = task_id

    def unapproved(self) -> list[ToolCall]:
        """Return the calls that a person has to approve or deny, also those whose tool has changed."""
        asked = self._calls("approve")
        changed = [call for task_id, call in self._calls("change") if not self._has_item(task_id, change_id(call.id))]
        return [*(call for task_id, call in asked if not self._has_item(task_id, approval_id(call.id))), *changed]

    def origins(self) -> dict[str, tuple[str, str, ToolCall]]:
        """Return the newest calls with their task and agent, by their ids."""
        steps = [(task_id, newest_step(self._engine, task_id)) for task_id in self._task_ids()]
        return {
            call.id: (task_id, step.agent_name, call)
            for task_id, step in steps
            if step is not None
            for call in step.calls
        }

    def changes(self) -> dict[str, ToolDifference]:
        """Return how the tools of open calls have changed, by the ids of the calls."""
        found = [change for task_id in self._task_ids() for change in open_tool_changes(self._engine, task_id)]
        return {change.call_id: change for change in found}

    def unanswered(self) -> list[ToolCall]:
        """Return the calls of client tools that have no answer yet."""
        return [call for task_id, call in self._calls("answer") if not self._has_item(task_id, answer_id(call.id))]

    def unknown(self) -> list[ToolCall]:
        """Return the calls with an unknown outcome, of which a person has to say whether they had their effect."""
        return [call for _, call in self._calls("resolve")]

    def sub_tasks(self) -> dict[str, str]:
        """Return the sub-tasks that wait, by the ids of their newest calls."""
        steps = [(task_id, newest_step(self._engine, task_id)) for task_id in self._task_ids()[1:]]
        return {call.id: task_id for task_id, step in steps if step is not None for call in step.calls}

    def at_limit(self) -> bool:
        """Return True if the task is paused at a limit: it continues once the limit is raised."""
        task = self._engine.tasks.task_store.load(self._task_id, 1)
        return task is not None and task.state.limit is not None

    def _calls(self, decision: PendingDecision) -> list[tuple[str, ToolCall]]:
        """Return the calls that wait for the decision, each with its task."""
        return [
            (task_id, call)
            for task_id in self._task_ids()
            for _, call, _ in waiting_calls(self._engine, task_id, decision)
        ]

    def _task_ids(self) -> list[str]:
        """Return the task, and those of its open sub-tasks that ask a person or client."""
        tasks = self._engine.tasks
        found = open_sub_tasks(tasks, self._task_id, tasks.task_store.load(self._task_id, 1))
        return [self._task_id, *(child for child, task in found if asks(self._engine, child, task))]

    def _has_item(self, task_id: str, item_id: str) -> bool:
        return stored_item(self._engine.workspace, task_id, item_id) is not None


def waiting_calls(engine: Engine, task_id: str, decision: PendingDecision) -> Iterator[WaitingCall]:
    """Yield the calls that wait for this decision, also if it is accepted. Only calls of the newest step can wait.

    A call that the coordinator answers itself waits for none: it is invalid, or a limit refuses it.
    """
    step = newest_step(engine, task_id)
    if step is None or not step.calls:
        return
    team, live = engine.workspace.frozen_teams.get(task_id), engine.tasks.task_store.load(task_id, 1)
    known = {} if live is None else live.calls
    local = local_answers(team, live.state, step) if live is not None and live.position.seq == step.seq + 1 else {}
    for call in step.calls:
        outcome = known[call.id].outcome if call.id in known else None
        if _waits(decision, team, call, outcome) and not (outcome is None and call.id in local):
            yield step, call, spec_of(team, step, call)


def _waits(decision: PendingDecision, team: Team, call: ToolCall, outcome: ToolOutcome | None) -> bool:
    match decision:
        case "approve" | "deny":
            return outcome is None and needs_approval(team, call)
        case "answer":
            return outcome is None and waits_for_client(team, call)
        case "resolve":
            return needs_resolution(outcome) and not needs_change_approval(outcome)
        case "change":
            return needs_change_approval(outcome)
