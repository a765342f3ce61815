"""state: the fold of a history into a TaskState, and History: the view of a task's past for routers and `decide`.

The state is updated step by step, so that no turn has to read the whole history. The cost of a decision therefore does
not grow with the number of steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.goal import GoalState
from roboco.domain.history.step import (
    ANSWER_FORM,
    GUARDS,
    LIMIT,
    ORCHESTRATOR,
    STATE,
    TOOL_EXECUTOR,
    USER,
    TaskStep,
    changed_state,
    start_time_of,
)
from roboco.domain.history.task_state import NO_DAY, LoopDetector, TaskState
from roboco.domain.ids import step_id_at
from roboco.domain.limits import deep_merge
from roboco.domain.usage import (
    UNFINISHED_USAGE,
    DayUsage,
    Usage,
    billionths,
    day_of,
    number_or_zero,
    tool_usage_of,
    unfinished_usage,
    usage_of,
)

REMINDED_GOALS = "reminded_goals"
"""The metadata key of a reminder's step for the names of the open goals."""
ACHIEVED_GOALS = "achieved_goals"
"""The metadata key of a step of results for the goals that it achieves, each with the id of the call."""
WRAP_UP_RULE = "wrap up"
"""The rule by which an agent makes the last turn at a limit."""
CONVERSATION = "conversation"
"""The metadata key of the first step of a task that waits for a message where it would complete."""
MAX_RECENT_ITEMS = 64
"""The number of ids of the newest inbox items that are remembered, so that a repeated item is dropped."""

AFTER_RESULTS = "results"
"""The rule by which an agent that called tools acts again."""
AFTER_INVALID_OUTPUT = "output"
"""The rule by which an agent acts again whose answer has not the type of its output."""


def _day_usage_after(before: DayUsage, step: TaskStep) -> DayUsage:
    parts = [*_own_usage(step), unfinished_usage(step.metadata)]
    tokens, cost = sum(part.tokens for part in parts), sum(billionths(part.cost) for part in parts)
    if step.is_imported or not (tokens or cost):
        return before
    day = max(before.day, day_of(step.created_at))  # it never goes backwards, whatever the clocks of workers show
    before = before if day == before.day else DayUsage(day=day)
    return DayUsage(day=day, tokens=before.tokens + tokens, cost_billionths=before.cost_billionths + cost)


def _own_usage(step: TaskStep) -> list[Usage]:
    """Return the usage of a turn or of its calls. Sub-tasks count their own."""
    if step.agent_name == TOOL_EXECUTOR:
        return [used for name, used in tool_usage_of(step.metadata).items() if name != DELEGATE]
    return [usage_of({"usage": step.metadata.get("usage")})]


def state_after(state: TaskState, step: TaskStep) -> TaskState:
    """Return the state after one more step."""
    spent = usage_of(step.metadata)
    rule = None if GUARDS in step.metadata else (step.metadata.get("routing") or {}).get("rule")
    failed = step.by_agent and step.ends_task  # if the task is retried, the agent has this turn again
    unfinished = failed or step.calls or step.interrupted or step.invalid_output
    finished = None if unfinished or not step.by_agent else step.agent_name
    goals, corrections = _goals_after(state, step)
    message = step.metadata if step.agent_name == USER else {}
    tools = {tool["name"]: tool for tool in message.get("client_tools") or ()}
    return TaskState(
        steps=state.steps + 1,
        imported=state.imported + step.is_imported,
        last_digest=step.digest,
        last_agent=step.agent_name if step.by_agent and not (failed or step.is_draft) else state.last_agent,
        turns=_incremented(state.turns, finished),
        rules=_incremented(state.rules, None if failed else rule),
        tokens_in=state.tokens_in + spent.tokens_in,
        tokens_out=state.tokens_out + spent.tokens_out,
        recent_item_ids=(*state.recent_item_ids, *step.item_ids)[-MAX_RECENT_ITEMS:],
        started_at=state.started_at or start_time_of(step.metadata, step.created_at),
        goals=goals,
        reminders=corrections,
        client_tools=tools or state.client_tools,
        answer_form=_form_after(state, step),
        scope=message.get("scope", state.scope),
        cost=round(state.cost + spent.cost, 9),
        summarized_until=max(state.summarized_until, int(number_or_zero(step.metadata.get("summarized_until")))),
        loop=_loop_after(state, step, rule),
        conversation=state.conversation or step.metadata.get(CONVERSATION) is True,
        interrupted=step.is_interruption or (state.interrupted and step.agent_name != USER),
        retried_at=step.created_at if step.is_retry else state.retried_at,
        day_usage=_day_usage_after(state.day_usage, step),
        values=changed_state(state.values, step.metadata.get(STATE)),
        outputs=state.outputs | ({step.agent_name: step.seq} if step.has_output else {}),
        **_guards_after(state, step),
        **(state.model_extra or {}),  # of a later release
        **_usage_after(state, step, spent),
        **_limits_after(state, step),
    )


def _form_after(state: TaskState, step: TaskStep) -> dict[str, Any]:
    """Return the form of the answer after one more step. A call of a client tool is the one that it demands."""
    if isinstance(form := step.metadata.get(ANSWER_FORM), dict) and not step.by_agent:
        return form
    if step.agent_name == USER and "routing" in step.metadata:
        return {}
    if any(call.tool_name in state.client_tools for call in step.calls):
        return {name: value for name, value in state.answer_form.items() if name != "calls"}
    return state.answer_form


def _usage_after(state: TaskState, step: TaskStep, spent: Usage) -> dict[str, Any]:
    """Return the usage of agents and tools after one more step. An imported step has used nothing."""
    if step.is_imported:
        return {"agents": state.agents, "tools": state.tools, "calls": state.calls}
    if step.by_agent:
        mine = state.agent_usage(step.agent_name).plus(spent.model_copy(update={"steps": not step.begins_function}))
        return {"agents": state.agents | {step.agent_name: mine}, "tools": state.tools, "calls": state.calls}
    if step.agent_name != TOOL_EXECUTOR:
        return {"agents": _with_unfinished(state, step), "tools": state.tools, "calls": state.calls}
    run, caller = tool_usage_of(step.metadata), state.last_agent or ""
    turn = run.pop(caller, Usage()) if step.answers_function else Usage()
    calls = sum(one.calls for one in run.values())
    used = {name: state.tool_usage(name).plus(one) for name, one in run.items()}
    mine = state.agent_usage(caller).plus(
        spent.model_copy(update={"steps": 0, "seconds": turn.seconds, "calls": calls})
    )
    counts = (calls or turn.calls) and GUARDS not in step.metadata
    agents = state.agents | {caller: mine} if counts else state.agents
    return {"agents": agents, "tools": state.tools | used, "calls": state.calls + calls}


def _with_unfinished(state: TaskState, step: TaskStep) -> dict[str, Usage]:
    """Return the usage of agents, with that of an agent's unfinished replies which this step replaced."""
    broken = unfinished_usage(step.metadata)
    if not broken.tokens:
        return state.agents
    agent = str(step.metadata[UNFINISHED_USAGE].get("agent") or "")
    return state.agents | {agent: state.agent_usage(agent).plus(broken)}


def _guards_after(state: TaskState, step: TaskStep) -> dict[str, Any]:
    """Return the fields about guards after one more step. A message whose guards were interrupted is undecided."""
    if step.agent_name == USER and not step.is_imported:
        return {"unguarded": step.seq if state.unguarded is None else state.unguarded, "refused": state.refused}
    verdicts = step.metadata.get(GUARDS) or {}
    if step.agent_name != TOOL_EXECUTOR or "passed" not in verdicts:
        return {"unguarded": None if step.by_agent else state.unguarded, "refused": state.refused}
    return {"refused": state.refused or ({} if verdicts["passed"] else verdicts)}


def _limits_after(state: TaskState, step: TaskStep) -> dict[str, Any]:
    by_wrap_up = (step.metadata.get("routing") or {}).get("rule") == WRAP_UP_RULE
    now = {
        "limit_overrides": state.limit_overrides,
        "limit": state.limit,
        "limited_agent": state.limited_agent,
        "wrapped_up": state.wrapped_up or (by_wrap_up and step.by_agent and not step.ends_task),
    }
    if step.agent_name == USER:  # the limit is checked again, and the user's message is answered
        return {"limit_overrides": state.limit_overrides}
    if step.agent_name != ORCHESTRATOR:
        return now
    if (changed := step.changed_limits) is not None:  # the limit is checked again
        return {"limit_overrides": deep_merge(state.limit_overrides, changed)}
    if step.error is not None and step.error.code == LIMIT:
        agent = str(step.metadata.get(LIMIT) or "")
        return {"limit_overrides": state.limit_overrides, "limit": step.error.message, "limited_agent": agent}
    return now


def _loop_after(state: TaskState, step: TaskStep, rule: str | None) -> LoopDetector:
    if step.agent_name == USER or step.is_retry:
        return LoopDetector()
    if step.agent_name == TOOL_EXECUTOR and GUARDS not in step.metadata:
        return state.loop.after_results(step.results, step.denied_calls)
    if not step.by_agent or step.ends_task or step.begins_function or step.is_draft:
        return state.loop
    return state.loop.after_turn(step.agent_name, step.text, step.calls, rule)


def _goals_after(state: TaskState, step: TaskStep) -> tuple[tuple[GoalState, ...], int]:
    if step.agent_name == USER:
        declared = step.metadata.get("goals") or ()
        return tuple(GoalState.model_validate(goal) for goal in declared) or state.goals, 0
    if step.agent_name == ORCHESTRATOR and REMINDED_GOALS in step.metadata:
        return state.goals, state.reminders + 1
    achieved = step.metadata.get(ACHIEVED_GOALS) or {}
    if not achieved:
        return state.goals, state.reminders
    return tuple(_achieved(goal, achieved.get(goal.name)) for goal in state.goals), state.reminders


@dataclass(frozen=True)
class History:
    """The state of all steps, and the newest steps."""

    state: TaskState
    tail: tuple[TaskStep, ...]
    """The newest steps in order; at least the last one."""
    whole: Sequence[TaskStep] | None = field(default=None, compare=False)

    @property
    def steps(self) -> Sequence[TaskStep]:
        """Return all steps to a decision, each read when it is needed. Other readers have the newest ones."""
        return self.tail if self.whole is None else self.whole

    @property
    def last(self) -> TaskStep:
        """Return the newest step."""
        return self.tail[-1]

    @property
    def current_run(self) -> tuple[TaskStep, ...]:
        """Return the current run: the steps since the last agent took over, with their results and the user's messages.

        It is empty if the last step is a message of the user.
        """
        if self.last.agent_name == USER:
            return ()
        agent = self.state.last_agent
        for index in range(len(self.tail) - 1, -1, -1):
            step = self.tail[index]
            if step.agent_name not in (agent, TOOL_EXECUTOR, USER):
                return self.tail[index + 1 :]
            if step.agent_name == agent and not _continues(step):
                return self.tail[index:]
        return self.tail


def is_conclusive(history: History, routes_by_run: bool) -> bool:
    """Return True if these steps suffice for a decision.

    They show the last calls with their results; with `routes_by_run` also the start of the current run, which they do
    not if a run with long results fills the tail. Messages of the user after the run, and notices, do not count,
    because decisions look past them.
    """
    steps = [step for step in history.tail if not step.is_notice]
    while steps and steps[-1].agent_name == USER:
        steps.pop()
    if len(steps) < 2:
        return False
    return not routes_by_run or len(History(history.state, tuple(steps)).current_run) < len(steps)


def fold(steps: Iterable[TaskStep], task_id: str = "") -> TaskState:
    """Return the state after all these steps, which start with the first one.

    The usage of a day is right only with the id of their task, by which steps that a fork has copied are left out.
    """
    state = TaskState()
    for step in steps:
        state = state_after(state, step)
        if task_id and step.step_id != step_id_at(task_id, step.seq):
            state = state.model_copy(update={"day_usage": NO_DAY})
    return state


def _achieved(goal: GoalState, call_id: str | None) -> GoalState:
    if call_id is None or goal.status != "open":
        return goal
    return goal.model_copy(update={"status": "achieved", "call_id": call_id})


def _incremented(counts: dict[str, int], key: str | None) -> dict[str, int]:
    return counts if key is None else counts | {key: counts.get(key, 0) + 1}


def _continues(step: TaskStep) -> bool:
    return (step.metadata.get("routing") or {}).get("rule") in (AFTER_RESULTS, AFTER_INVALID_OUTPUT)
