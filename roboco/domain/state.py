"""TaskState: what a history comes to, kept up step by step so that no turn has to read all of it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from roboco.domain.goal import GoalState
from roboco.domain.part import Recorded
from roboco.domain.step import ORCHESTRATOR, USER, TaskStep

CORRECTS = "corrects"
"""Where the metadata of a step names the open goals that it reminds of."""
ACHIEVED = "achieved"
"""Where the metadata of a step of results names the goals that it achieves, and by which calls."""
KEPT_ITEMS = 64
"""How many ids of the newest messages from outside are remembered, to drop one that comes again."""


class TaskState(Recorded):
    """The fold of a history: the same steps always give the same state.

    `goals` are those of the newest message that declared some, `corrections` how often agents were reminded since then;
    `client_tools` are those of the newest message that declared some, by name; `scope` is what tools are to look at.
    """

    steps: int = 0
    last_digest: str = ""
    last_agent: str | None = None
    turns: dict[str, int] = {}
    rules: dict[str, int] = {}
    tokens_in: int = 0
    tokens_out: int = 0
    items: tuple[str, ...] = ()
    started_at: datetime | None = None
    goals: tuple[GoalState, ...] = ()
    corrections: int = 0
    client_tools: dict[str, dict[str, Any]] = {}
    scope: dict[str, Any] | None = None

    @property
    def tokens(self) -> int:
        """Tokens in and out together, as the models reported them."""
        return self.tokens_in + self.tokens_out

    def after(self, step: TaskStep) -> "TaskState":
        """The state with one more step."""
        usage = step.metadata.get("usage") or {}
        rule = (step.metadata.get("routing") or {}).get("rule")
        finished = step.agent_name if step.by_agent and not step.calls and not step.interrupted else None
        goals, corrections = self._goals(step)
        told = step.metadata if step.agent_name == USER else {}
        tools = {tool["name"]: tool for tool in told.get("client_tools") or ()}
        return TaskState(
            steps=self.steps + 1,
            last_digest=step.digest,
            last_agent=step.agent_name if step.by_agent else self.last_agent,
            turns=_counted(self.turns, finished),
            rules=_counted(self.rules, rule),
            tokens_in=self.tokens_in + _number(usage.get("tokens_in")),
            tokens_out=self.tokens_out + _number(usage.get("tokens_out")),
            items=(*self.items, *items_of(step))[-KEPT_ITEMS:],
            started_at=self.started_at or step.created_at,
            goals=goals,
            corrections=corrections,
            client_tools=tools or self.client_tools,
            scope=told.get("scope", self.scope),
        )

    @property
    def open_goals(self) -> tuple[GoalState, ...]:
        """The goals that are not achieved yet."""
        return tuple(goal for goal in self.goals if goal.status == "open")

    def _goals(self, step: TaskStep) -> tuple[tuple[GoalState, ...], int]:
        if step.agent_name == USER:
            declared = step.metadata.get("goals") or ()
            return tuple(GoalState.model_validate(goal) for goal in declared) or self.goals, 0
        if step.agent_name == ORCHESTRATOR and CORRECTS in step.metadata:
            return self.goals, self.corrections + 1
        achieved = step.metadata.get(ACHIEVED) or {}
        if not achieved:
            return self.goals, self.corrections
        return tuple(_achieved(goal, achieved.get(goal.name)) for goal in self.goals), self.corrections


def fold(steps: Iterable[TaskStep]) -> TaskState:
    """The state after all these steps, from the first one on."""
    state = TaskState()
    for step in steps:
        state = state.after(step)
    return state


def _achieved(goal: GoalState, call_id: str | None) -> GoalState:
    if call_id is None or goal.status != "open":
        return goal
    return goal.model_copy(update={"status": "achieved", "call_id": call_id})


def _counted(counts: dict[str, int], key: str | None) -> dict[str, int]:
    return counts if key is None else counts | {key: counts.get(key, 0) + 1}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def items_of(step: TaskStep) -> tuple[str, ...]:
    """The ids of what the step took over from the inbox."""
    judged = [one.get("item_id") for one in (step.metadata.get("approvals") or {}).values()]
    item_ids = [step.metadata.get("item_id"), *(step.metadata.get("resolved") or {}).values(), *judged]
    return tuple(item_id for item_id in item_ids if isinstance(item_id, str))
