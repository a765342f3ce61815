"""SessionGoal: a goal of a user's message and its result, as clients show it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from roboco.domain.builtin_tools import GOAL_PREFIX
from roboco.domain.history.goal import GoalState
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.schema import RecordModel

_GOALS = "goals"


class SessionGoal(RecordModel):
    """A goal of a user's message."""

    name: str
    description: str
    status: Literal["open", "achieved", "failed"] = "open"
    """`failed` if all reminders were used or a newer message declared other goals.

    In a task that ended otherwise, an open goal stays `open`.
    """
    goal_index: int
    declared_seq: int
    """The position of the message that declared the goal."""
    declared_at: datetime
    achieved_at: datetime | None = None
    failed_at: datetime | None = None
    tool_use_id: str | None = None
    """The call that achieved the goal."""
    outcome: Any = None
    """The arguments of that call."""
    outcome_schema: dict[str, Any] = {}
    """The JSON Schema of the outcome."""


def goals_of(steps: Iterable[TaskStep]) -> list[SessionGoal]:
    """Return the goals of a whole history, in the order of their declaration."""
    goals: list[SessionGoal] = []
    calls: dict[str, ToolCall] = {}
    for step in steps:
        declared = _declared(step, len(goals)) if step.agent_name == USER else []
        gave_up = step.agent_name == ORCHESTRATOR and step.error is not None and step.error.code == _GOALS
        if declared or gave_up:
            goals = [_failed(goal, step.created_at) for goal in goals] + declared
        for result in step.results if step.agent_name == TOOL_EXECUTOR else ():
            if not result.is_error and (call := calls.get(result.tool_call_id)) is not None:
                goals = _achieved(goals, call, step.created_at)
        calls = {call.id: call for call in step.calls}
    return goals


def _declared(step: TaskStep, first_index: int) -> list[SessionGoal]:
    declared = map(GoalState.model_validate, step.metadata.get("goals") or ())
    return [
        SessionGoal(
            name=goal.name,
            description=goal.description,
            goal_index=index,
            declared_seq=step.seq,
            declared_at=step.created_at,
            outcome_schema=goal.outcome,
        )
        for index, goal in enumerate(declared, first_index)
    ]


def _failed(goal: SessionGoal, when: datetime) -> SessionGoal:
    return goal.model_copy(update={"status": "failed", "failed_at": when}) if goal.status == "open" else goal


def _achieved(goals: list[SessionGoal], call: ToolCall, when: datetime) -> list[SessionGoal]:
    for index, goal in reversed([*enumerate(goals)]):
        if goal.status == "open" and call.tool_name == f"{GOAL_PREFIX}{goal.name}":
            update = {"status": "achieved", "achieved_at": when, "tool_use_id": call.id, "outcome": call.args}
            return [*goals[:index], goal.model_copy(update=update), *goals[index + 1 :]]
    return goals
