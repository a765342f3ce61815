"""TaskState: what a history comes to, kept up step by step so that no turn has to read all of it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from roboco.domain.history.goal import GoalState
from roboco.domain.history.loop_detector import LoopGuard
from roboco.domain.history.start_time import begins
from roboco.domain.history.step import ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.limits import merged
from roboco.domain.schema import Recorded
from roboco.domain.usage import BROKEN, Spent, broken_before, number, spent_by

CORRECTS = "corrects"
"""Where the metadata of a step names the open goals that it reminds of."""
ACHIEVED = "achieved"
"""Where the metadata of a step of results names the goals that it achieves, and by which calls."""
LIMIT = "limit"
"""The code of the error that says which limit is reached, and where its step names the agent whose turn it was."""
RAISED = "raised"
"""Where the metadata of a step holds limits that take the place of the team's."""
WRAPS_UP = "wrap up"
"""The rule by which an agent makes the last turn at a limit."""
KEPT_ITEMS = 64
"""How many ids of the newest messages from outside are remembered, to drop one that comes again."""


class TaskState(Recorded):
    """The fold of a history: the same steps always give the same state.

    `goals` are those of the newest message that declared some, `corrections` how often agents were reminded since then;
    `client_tools` are those of the newest message that declared some, by name; `scope` is what tools are to look at.
    `agents` and `tools` say what each of them has used, `cost` and `calls` what all of them have. `raised` are limits
    that take the place of the team's. `limit` says which limit was reached, at the turn of `limited_agent`, until it is
    raised or the user speaks; `wrapped_up` whether the last turn was made. Summaries
    of the steps before `summarised_until` are paid for.
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
    agents: dict[str, Spent] = {}
    tools: dict[str, Spent] = {}
    calls: int = 0
    cost: float = 0.0
    raised: dict[str, Any] = {}
    limit: str | None = None
    limited_agent: str = ""
    wrapped_up: bool = False
    summarised_until: int = 0
    loop: LoopGuard = LoopGuard()

    @property
    def tokens(self) -> int:
        """Tokens in and out together, as the models reported them."""
        return self.tokens_in + self.tokens_out

    @property
    def spent(self) -> Spent:
        """What all steps have used; the seconds are not known here."""
        return Spent(
            steps=self.steps, tokens_in=self.tokens_in, tokens_out=self.tokens_out, calls=self.calls, cost=self.cost
        )

    def of_agent(self, name: str) -> Spent:
        """What the agent has used: its turns, their tokens, time and cost, and the calls of it that were run."""
        return self.agents.get(name, Spent())

    def of_tool(self, name: str) -> Spent:
        """What the tool has used: calls that were run, their seconds, and what they cost."""
        return self.tools.get(name, Spent())

    def having_spent(self, agent: str, more: Spent) -> "TaskState":
        """The state as it is when the agent has used so much more, which is in no step yet."""
        return self.model_copy(
            update={
                "tokens_in": self.tokens_in + more.tokens_in,
                "tokens_out": self.tokens_out + more.tokens_out,
                "cost": self.cost + more.cost,
                "agents": self.agents | {agent: self.of_agent(agent).plus(more.model_copy(update={"steps": 0}))},
            }
        )

    def after(self, step: TaskStep) -> "TaskState":
        """The state with one more step."""
        spent = spent_by(step.metadata)
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
            tokens_in=self.tokens_in + spent.tokens_in,
            tokens_out=self.tokens_out + spent.tokens_out,
            items=(*self.items, *items_of(step))[-KEPT_ITEMS:],
            started_at=self.started_at or begins(step),
            goals=goals,
            corrections=corrections,
            client_tools=tools or self.client_tools,
            scope=told.get("scope", self.scope),
            cost=round(self.cost + spent.cost, 9),
            summarised_until=max(self.summarised_until, int(number(step.metadata.get("summarised_until")))),
            loop=self.loop.after(step),
            **self._used(step, spent),
            **self._limited(step),
        )

    @property
    def open_goals(self) -> tuple[GoalState, ...]:
        """The goals that are not achieved yet."""
        return tuple(goal for goal in self.goals if goal.status == "open")

    def _used(self, step: TaskStep, spent: Spent) -> dict[str, Any]:
        """What agents and tools have used, with one more step."""
        if step.by_agent:
            mine = self.of_agent(step.agent_name).plus(spent)
            return {"agents": self.agents | {step.agent_name: mine}, "tools": self.tools, "calls": self.calls}
        if step.agent_name != TOOL_EXECUTOR:
            return {"agents": self._with_broken(step), "tools": self.tools, "calls": self.calls}
        run = _tools_of(step)
        calls = sum(one.calls for one in run.values())
        caller = self.last_agent or ""
        used = {name: self.of_tool(name).plus(one) for name, one in run.items()}
        mine = self.of_agent(caller).plus(spent.model_copy(update={"steps": 0, "seconds": 0.0, "calls": calls}))
        agents = self.agents | {caller: mine} if calls else self.agents
        return {"agents": agents, "tools": self.tools | used, "calls": self.calls + calls}

    def _with_broken(self, step: TaskStep) -> dict[str, Spent]:
        """What agents have used, with an agent's answers that broke before a step which took their place."""
        broken = broken_before(step.metadata)
        if not broken.tokens:
            return self.agents
        agent = str(step.metadata[BROKEN].get("agent") or "")
        return self.agents | {agent: self.of_agent(agent).plus(broken)}

    def _limited(self, step: TaskStep) -> dict[str, Any]:
        """The limits that were raised, and how the task stands at one, with one more step."""
        last_turn = step.by_agent and (step.metadata.get("routing") or {}).get("rule") == WRAPS_UP
        now = {
            "raised": self.raised,
            "limit": self.limit,
            "limited_agent": self.limited_agent,
            "wrapped_up": self.wrapped_up or last_turn,
        }
        if step.agent_name == USER:  # whether the limit still holds is looked at anew, and whoever speaks is answered
            return {"raised": self.raised}
        if step.agent_name != ORCHESTRATOR:
            return now
        if isinstance(raised := step.metadata.get(RAISED), dict):
            return {"raised": merged(self.raised, raised)}
        if step.error is not None and step.error.code == LIMIT:
            agent = str(step.metadata.get(LIMIT) or "")
            return {"raised": self.raised, "limit": step.error.message, "limited_agent": agent}
        return now

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


def _tools_of(step: TaskStep) -> dict[str, Spent]:
    """What the tools of the calls that were run have used, as a step of results says."""
    told = step.metadata.get("tools") or {}
    return {
        str(name): Spent(
            calls=int(number(one.get("calls"))), seconds=number(one.get("seconds")), cost=number(one.get("cost"))
        )
        for name, one in told.items()
    }


def is_notice(step: TaskStep) -> bool:
    """Whether the step says that a limit was reached or raised: nobody's turn, and nothing that routes."""
    if step.agent_name != ORCHESTRATOR:
        return False
    return RAISED in step.metadata or (step.error is not None and step.error.code == LIMIT)


def items_of(step: TaskStep) -> tuple[str, ...]:
    """The ids of what the step took over from the inbox."""
    judged = [one.get("item_id") for one in (step.metadata.get("approvals") or {}).values()]
    item_ids = [step.metadata.get("item_id"), *(step.metadata.get("resolved") or {}).values(), *judged]
    return tuple(item_id for item_id in item_ids if isinstance(item_id, str))
