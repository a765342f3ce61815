"""TaskState: the fold of a history. It is updated step by step, so that no turn has to read the whole history."""

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
"""The metadata key of a reminder's step for the names of the open goals."""
ACHIEVED = "achieved"
"""The metadata key of a step of results for the goals that it achieves, each with the id of the call."""
LIMIT = "limit"
"""The code of the error of a reached limit, and the metadata key of its step for the agent that was next."""
RAISED = "raised"
"""The metadata key of a step for limits that replace the team's."""
WRAPS_UP = "wrap up"
"""The rule by which an agent makes the last turn at a limit."""
KEPT_ITEMS = 64
"""The number of ids of the newest inbox items that are remembered, so that a repeated item is dropped."""


class TaskState(Recorded):
    """The state after the steps of a history. The same steps always fold into the same state."""

    steps: int = 0
    """The number of steps."""
    last_digest: str = ""
    """The digest of the last step."""
    last_agent: str | None = None
    """The agent of the newest step by an agent."""
    turns: dict[str, int] = {}
    """The number of finished turns of each agent."""
    rules: dict[str, int] = {}
    """How often each routing rule was used."""
    tokens_in: int = 0
    tokens_out: int = 0
    items: tuple[str, ...] = ()
    """The ids of the newest applied inbox items."""
    started_at: datetime | None = None
    goals: tuple[GoalState, ...] = ()
    """The goals of the newest message that declared goals."""
    corrections: int = 0
    """How often agents were reminded of these goals."""
    client_tools: dict[str, dict[str, Any]] = {}
    """The client tools, by name, of the newest message that declared client tools."""
    scope: dict[str, Any] | None = None
    """The scope of tool calls, of the newest message with one."""
    agents: dict[str, Spent] = {}
    """The usage of each agent."""
    tools: dict[str, Spent] = {}
    """The usage of each tool."""
    calls: int = 0
    """The number of tool calls that were run."""
    cost: float = 0.0
    """The cost of all steps."""
    raised: dict[str, Any] = {}
    """Limits that replace the team's."""
    limit: str | None = None
    """The limit that was reached, until it is raised or the user sends a message."""
    limited_agent: str = ""
    """The agent that was next when the limit was reached."""
    wrapped_up: bool = False
    """True if the last turn was made."""
    summarised_until: int = 0
    """The position before which summaries of steps are paid for."""
    loop: LoopGuard = LoopGuard()

    @property
    def tokens(self) -> int:
        """Return input and output tokens together, as the models reported them."""
        return self.tokens_in + self.tokens_out

    @property
    def spent(self) -> Spent:
        """Return the usage of all steps, without the seconds, which are not known here."""
        return Spent(
            steps=self.steps, tokens_in=self.tokens_in, tokens_out=self.tokens_out, calls=self.calls, cost=self.cost
        )

    def of_agent(self, name: str) -> Spent:
        """Return the usage of the agent: its turns, their tokens, time and cost, and its calls that were run."""
        return self.agents.get(name, Spent())

    def of_tool(self, name: str) -> Spent:
        """Return the usage of the tool: calls that were run, their seconds and their cost."""
        return self.tools.get(name, Spent())

    def having_spent(self, agent: str, more: Spent) -> "TaskState":
        """Return the state with additional usage of the agent that is in no step yet."""
        return self.model_copy(
            update={
                "tokens_in": self.tokens_in + more.tokens_in,
                "tokens_out": self.tokens_out + more.tokens_out,
                "cost": self.cost + more.cost,
                "agents": self.agents | {agent: self.of_agent(agent).plus(more.model_copy(update={"steps": 0}))},
            }
        )

    def after(self, step: TaskStep) -> "TaskState":
        """Return the state after one more step."""
        spent = spent_by(step.metadata)
        rule = (step.metadata.get("routing") or {}).get("rule")
        finished = step.agent_name if step.by_agent and not step.calls and not step.interrupted else None
        goals, corrections = self._goals(step)
        message = step.metadata if step.agent_name == USER else {}
        tools = {tool["name"]: tool for tool in message.get("client_tools") or ()}
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
            scope=message.get("scope", self.scope),
            cost=round(self.cost + spent.cost, 9),
            summarised_until=max(self.summarised_until, int(number(step.metadata.get("summarised_until")))),
            loop=self.loop.after(step),
            **self._used(step, spent),
            **self._limited(step),
        )

    @property
    def open_goals(self) -> tuple[GoalState, ...]:
        """Return the goals that are not achieved yet."""
        return tuple(goal for goal in self.goals if goal.status == "open")

    def _used(self, step: TaskStep, spent: Spent) -> dict[str, Any]:
        """Return the usage of agents and tools after one more step."""
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
        """Return the usage of agents, with that of an agent's unfinished replies which this step replaced."""
        broken = broken_before(step.metadata)
        if not broken.tokens:
            return self.agents
        agent = str(step.metadata[BROKEN].get("agent") or "")
        return self.agents | {agent: self.of_agent(agent).plus(broken)}

    def _limited(self, step: TaskStep) -> dict[str, Any]:
        """Return the fields about limits after one more step."""
        last_turn = step.by_agent and (step.metadata.get("routing") or {}).get("rule") == WRAPS_UP
        now = {
            "raised": self.raised,
            "limit": self.limit,
            "limited_agent": self.limited_agent,
            "wrapped_up": self.wrapped_up or last_turn,
        }
        if step.agent_name == USER:  # the limit is checked again, and the user's message is answered
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
    """Return the state after all these steps, which start with the first one."""
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
    """Return the usage of the tools whose calls were run, from the metadata of a step of results."""
    tools = step.metadata.get("tools") or {}
    return {
        str(name): Spent(
            calls=int(number(one.get("calls"))), seconds=number(one.get("seconds")), cost=number(one.get("cost"))
        )
        for name, one in tools.items()
    }


def is_notice(step: TaskStep) -> bool:
    """Return True if the step only reports that a limit was reached or raised.

    No agent has this turn; routers ignore it.
    """
    if step.agent_name != ORCHESTRATOR:
        return False
    return RAISED in step.metadata or (step.error is not None and step.error.code == LIMIT)


def items_of(step: TaskStep) -> tuple[str, ...]:
    """Return the ids of the inbox items that the step applied."""
    decided = [one.get("item_id") for one in (step.metadata.get("approvals") or {}).values()]
    item_ids = [step.metadata.get("item_id"), *(step.metadata.get("resolved") or {}).values(), *decided]
    return tuple(item_id for item_id in item_ids if isinstance(item_id, str))
