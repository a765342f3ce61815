"""TaskState: the fold of a history, and History: the view of a task's past for routers and `decide`.

The state is updated step by step, so that no turn has to read the whole history. The cost of a decision therefore does
not grow with the number of steps.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import Field

from roboco.domain.builtin_tools import CLIENT_PREFIX, DELEGATE
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.goal import GoalState
from roboco.domain.history.part import ToolCall, ToolResult
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
from roboco.domain.ids import step_id_at
from roboco.domain.limits import Limits, deep_merge
from roboco.domain.schema import RecordModel
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

MAX_COUNTED_CALLS = 64
"""The number of different calls that are counted, newest first."""
MIN_WORK_CHARS = 200
"""The number of characters from which an agent's text beside a hand-off counts as work."""
HANDOFF_RULE = "handoff"
"""The rule by which an agent acts after a hand-off to it."""


class LoopDetector(RecordModel):
    """The repetitions since the last message of the user."""

    open_calls: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """The calls of the last step by id: tool name and digest of the arguments."""
    repeats: dict[str, tuple[str, int]] = Field(default_factory=dict)
    """For each call with its result, by digest: the tool name, and how often it happened."""
    handoffs: int = 0
    """The number of consecutive hand-offs."""
    agents: tuple[str, ...] = ()
    """The agents of the last hand-offs."""

    def after_turn(self, agent_name: str, text: str, calls: Sequence[ToolCall], rule: str | None) -> "LoopDetector":
        """Return the detector's state after a turn of this agent, to which this rule led."""
        asked = {call.id: (call.tool_name, sha256(canonical_json([call.tool_name, call.args]))[:16]) for call in calls}
        others = [call for call in calls if call.tool_name != HANDOFF_RULE]
        idle_handoff = rule == HANDOFF_RULE and not others and len(text) < MIN_WORK_CHARS
        return LoopDetector(
            open_calls=asked,
            repeats=self.repeats,
            handoffs=self.handoffs + 1 if idle_handoff else 0,
            agents=tuple(dict.fromkeys((agent_name, *self.agents)))[:4] if idle_handoff else (),
        )

    def after_results(self, results: Iterable[ToolResult], denied: Collection[str]) -> "LoopDetector":
        """Return the detector's state after these results. `denied` are the ids of the calls that a person denied."""
        repeats = dict(self.repeats)
        for result in results:
            name, asked = self.open_calls.get(result.tool_call_id, (CLIENT_PREFIX, ""))
            if name.startswith(CLIENT_PREFIX) or result.tool_call_id in denied:  # a client or person answered each time
                continue
            same = sha256(canonical_json([asked, result.is_error, result.error, result.result]))[:16]
            _, times = repeats.pop(same, (name, 0))
            repeats[same] = (name, times + 1)
        newest = dict(list(repeats.items())[-MAX_COUNTED_CALLS:])
        return self.model_copy(update={"open_calls": {}, "repeats": newest})

    def detect(self, limits: Limits) -> str | None:
        """Return a description of the task's loop, or None if there is none."""
        if limits.max_repeats:
            for name, times in self.repeats.values():
                if times >= limits.max_repeats:
                    return (
                        f"{name} was called {times} times with the same arguments and had the same result each time, "
                        f"max_repeats is {limits.max_repeats}"
                    )
        if limits.max_handoffs and self.handoffs >= limits.max_handoffs:
            names = " and ".join(sorted(self.agents))
            return (
                f"{names} handed off {self.handoffs} times in a row with nothing done in between, "
                f"max_handoffs is {limits.max_handoffs}"
            )
        return None


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

COORDINATOR_TAIL_LENGTH = 64
"""The number of newest steps that the coordinator loads. Routers see no more steps of an agent's current run."""
AFTER_RESULTS = "results"
"""The rule by which an agent that called tools acts again."""
AFTER_INVALID_OUTPUT = "output"
"""The rule by which an agent acts again whose answer has not the type of its output."""


def _day_usage_after(before: DayUsage, step: TaskStep) -> DayUsage:
    """Return the usage of a task on the day of its next step, including the step."""
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


NO_DAY = DayUsage(day="")
"""The usage of a task before its first step with usage."""


class TaskState(RecordModel):
    """The state after the steps of a history. The same steps always fold into the same state.

    Each default that is not atomic is made, not copied: pydantic's deep copies took ten times as long as the rest of
    parsing a state, which each turn does.
    """

    steps: int = 0
    """The number of steps."""
    imported: int = 0
    """The number of steps that were imported when the task was submitted. No limit counts them."""
    last_digest: str = ""
    """The digest of the last step."""
    last_agent: str | None = None
    """The agent of the newest step by an agent."""
    turns: dict[str, int] = Field(default_factory=dict)
    """The number of finished turns of each agent."""
    rules: dict[str, int] = Field(default_factory=dict)
    """How often each routing rule was used."""
    tokens_in: int = 0
    tokens_out: int = 0
    recent_item_ids: tuple[str, ...] = ()
    """The ids of the newest applied inbox items."""
    started_at: datetime | None = None
    goals: tuple[GoalState, ...] = ()
    """The goals of the newest message that declared goals."""
    reminders: int = 0
    """How often agents were reminded of these goals."""
    client_tools: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The client tools, by name, of the newest message that declared client tools."""
    answer_form: dict[str, Any] = {}
    """The form that the newest message demands of its answer, until that is complete."""
    scope: dict[str, Any] | None = None
    """The scope of tool calls, of the newest message with one."""
    agents: dict[str, Usage] = Field(default_factory=dict)
    """The usage of each agent."""
    tools: dict[str, Usage] = Field(default_factory=dict)
    """The usage of each tool."""
    calls: int = 0
    """The number of tool calls that were run."""
    cost: float = 0.0
    """The cost of all steps."""
    limit_overrides: dict[str, Any] = Field(default_factory=dict)
    """Limits that replace the team's."""
    limit: str | None = None
    """The limit that was reached, until it is raised or the user sends a message."""
    limited_agent: str = ""
    """The agent that was next when the limit was reached."""
    wrapped_up: bool = False
    """True if the last turn was made."""
    summarized_until: int = 0
    """The position before which summaries of steps are paid for."""
    loop: LoopDetector = Field(default_factory=LoopDetector)
    conversation: bool = False
    """True if the task waits for a message where it would complete."""
    interrupted: bool = False
    """True from an interruption without a message until the next message."""
    retried_at: datetime | None = None
    """The time of the last retry. Limits of seconds count from then."""
    day_usage: DayUsage = Field(default_factory=lambda: NO_DAY)
    """The usage on the day of the newest step with usage. Steps that a fork has copied count for nothing."""
    values: dict[str, Any] = {}
    """The state that tools, clients and agents share."""
    outputs: dict[str, int] = {}
    """By agent: the position of its newest step with a typed output."""
    unguarded: int | None = None
    """The position of the first message of the user on which no guard has decided, or None."""
    refused: dict[str, Any] = {}
    """The reason why guards have refused a message or answer, and whether a guard failed; empty if none was refused."""

    @property
    def tokens(self) -> int:
        """Return input and output tokens together, as the models reported them."""
        return self.tokens_in + self.tokens_out

    @property
    def usage(self) -> Usage:
        """Return the usage of all steps but imported ones, without the seconds, which are not known here."""
        own, tokens_in, tokens_out = self.steps - self.imported, self.tokens_in, self.tokens_out
        return Usage(steps=own, tokens_in=tokens_in, tokens_out=tokens_out, calls=self.calls, cost=self.cost)

    def client_tools_of(self, agent: str) -> dict[str, dict[str, Any]]:
        """Return the client tools that the agent may call, by name."""
        if self.answer_form.get("calls") == "none":
            return {}
        return {name: tool for name, tool in self.client_tools.items() if agent in tool.get("agents", (agent,))}

    def agent_usage(self, name: str) -> Usage:
        """Return the usage of the agent: its turns, their tokens, time and cost, and its calls that were run."""
        return self.agents.get(name, Usage())

    def tool_usage(self, name: str) -> Usage:
        """Return the usage of the tool: calls that were run, their seconds and their cost."""
        return self.tools.get(name, Usage())

    def plus_usage(self, agent: str, more: Usage) -> "TaskState":
        """Return the state with additional usage of the agent that is in no step yet."""
        return self.model_copy(
            update={
                "tokens_in": self.tokens_in + more.tokens_in,
                "tokens_out": self.tokens_out + more.tokens_out,
                "cost": self.cost + more.cost,
                "agents": self.agents | {agent: self.agent_usage(agent).plus(more.model_copy(update={"steps": 0}))},
            }
        )

    def after(self, step: TaskStep) -> "TaskState":
        """Return the state after one more step."""
        spent = usage_of(step.metadata)
        rule = None if GUARDS in step.metadata else (step.metadata.get("routing") or {}).get("rule")
        failed = step.by_agent and step.ends_task  # if the task is retried, the agent has this turn again
        unfinished = failed or step.calls or step.interrupted or step.invalid_output
        finished = None if unfinished or not step.by_agent else step.agent_name
        goals, corrections = self._goals_after(step)
        message = step.metadata if step.agent_name == USER else {}
        tools = {tool["name"]: tool for tool in message.get("client_tools") or ()}
        return TaskState(
            steps=self.steps + 1,
            imported=self.imported + step.is_imported,
            last_digest=step.digest,
            last_agent=step.agent_name if step.by_agent and not (failed or step.is_draft) else self.last_agent,
            turns=_incremented(self.turns, finished),
            rules=_incremented(self.rules, None if failed else rule),
            tokens_in=self.tokens_in + spent.tokens_in,
            tokens_out=self.tokens_out + spent.tokens_out,
            recent_item_ids=(*self.recent_item_ids, *step.item_ids)[-MAX_RECENT_ITEMS:],
            started_at=self.started_at or start_time_of(step.metadata, step.created_at),
            goals=goals,
            reminders=corrections,
            client_tools=tools or self.client_tools,
            answer_form=self._form_after(step),
            scope=message.get("scope", self.scope),
            cost=round(self.cost + spent.cost, 9),
            summarized_until=max(self.summarized_until, int(number_or_zero(step.metadata.get("summarized_until")))),
            loop=self._loop_after(step, rule),
            conversation=self.conversation or step.metadata.get(CONVERSATION) is True,
            interrupted=step.is_interruption or (self.interrupted and step.agent_name != USER),
            retried_at=step.created_at if step.is_retry else self.retried_at,
            day_usage=_day_usage_after(self.day_usage, step),
            values=changed_state(self.values, step.metadata.get(STATE)),
            outputs=self.outputs | ({step.agent_name: step.seq} if step.has_output else {}),
            **self._guards_after(step),
            **(self.model_extra or {}),  # of a later release
            **self._usage_after(step, spent),
            **self._limits_after(step),
        )

    def limits_since(self, started: datetime) -> datetime:
        """Return the time from which limits of seconds count, for a task that was submitted or forked at `started`."""
        return started if self.retried_at is None else max(started, self.retried_at)

    @property
    def open_goals(self) -> tuple[GoalState, ...]:
        """Return the goals that are not achieved yet."""
        return tuple(goal for goal in self.goals if goal.status == "open")

    def _form_after(self, step: TaskStep) -> dict[str, Any]:
        """Return the form of the answer after one more step. A call of a client tool is the one that it demands."""
        if isinstance(form := step.metadata.get(ANSWER_FORM), dict) and not step.by_agent:
            return form
        if step.agent_name == USER and "routing" in step.metadata:
            return {}
        if any(call.tool_name in self.client_tools for call in step.calls):
            return {name: value for name, value in self.answer_form.items() if name != "calls"}
        return self.answer_form

    def _usage_after(self, step: TaskStep, spent: Usage) -> dict[str, Any]:
        """Return the usage of agents and tools after one more step. An imported step has used nothing."""
        if step.is_imported:
            return {"agents": self.agents, "tools": self.tools, "calls": self.calls}
        if step.by_agent:
            mine = self.agent_usage(step.agent_name).plus(spent.model_copy(update={"steps": not step.begins_function}))
            return {"agents": self.agents | {step.agent_name: mine}, "tools": self.tools, "calls": self.calls}
        if step.agent_name != TOOL_EXECUTOR:
            return {"agents": self._with_unfinished(step), "tools": self.tools, "calls": self.calls}
        run, caller = tool_usage_of(step.metadata), self.last_agent or ""
        turn = run.pop(caller, Usage()) if step.answers_function else Usage()
        calls = sum(one.calls for one in run.values())
        used = {name: self.tool_usage(name).plus(one) for name, one in run.items()}
        mine = self.agent_usage(caller).plus(
            spent.model_copy(update={"steps": 0, "seconds": turn.seconds, "calls": calls})
        )
        counts = (calls or turn.calls) and GUARDS not in step.metadata
        agents = self.agents | {caller: mine} if counts else self.agents
        return {"agents": agents, "tools": self.tools | used, "calls": self.calls + calls}

    def _with_unfinished(self, step: TaskStep) -> dict[str, Usage]:
        """Return the usage of agents, with that of an agent's unfinished replies which this step replaced."""
        broken = unfinished_usage(step.metadata)
        if not broken.tokens:
            return self.agents
        agent = str(step.metadata[UNFINISHED_USAGE].get("agent") or "")
        return self.agents | {agent: self.agent_usage(agent).plus(broken)}

    def _guards_after(self, step: TaskStep) -> dict[str, Any]:
        """Return the fields about guards after one more step. A message whose guards were interrupted is undecided."""
        if step.agent_name == USER and not step.is_imported:
            return {"unguarded": step.seq if self.unguarded is None else self.unguarded, "refused": self.refused}
        verdicts = step.metadata.get(GUARDS) or {}
        if step.agent_name != TOOL_EXECUTOR or "passed" not in verdicts:
            return {"unguarded": None if step.by_agent else self.unguarded, "refused": self.refused}
        return {"refused": self.refused or ({} if verdicts["passed"] else verdicts)}

    def _limits_after(self, step: TaskStep) -> dict[str, Any]:
        """Return the fields about limits after one more step."""
        by_wrap_up = (step.metadata.get("routing") or {}).get("rule") == WRAP_UP_RULE
        now = {
            "limit_overrides": self.limit_overrides,
            "limit": self.limit,
            "limited_agent": self.limited_agent,
            "wrapped_up": self.wrapped_up or (by_wrap_up and step.by_agent and not step.ends_task),
        }
        if step.agent_name == USER:  # the limit is checked again, and the user's message is answered
            return {"limit_overrides": self.limit_overrides}
        if step.agent_name != ORCHESTRATOR:
            return now
        if (changed := step.changed_limits) is not None:  # the limit is checked again
            return {"limit_overrides": deep_merge(self.limit_overrides, changed)}
        if step.error is not None and step.error.code == LIMIT:
            agent = str(step.metadata.get(LIMIT) or "")
            return {"limit_overrides": self.limit_overrides, "limit": step.error.message, "limited_agent": agent}
        return now

    def _loop_after(self, step: TaskStep, rule: str | None) -> LoopDetector:
        if step.agent_name == USER or step.is_retry:
            return LoopDetector()
        if step.agent_name == TOOL_EXECUTOR and GUARDS not in step.metadata:
            return self.loop.after_results(step.results, step.denied_calls)
        if not step.by_agent or step.ends_task or step.begins_function or step.is_draft:
            return self.loop
        return self.loop.after_turn(step.agent_name, step.text, step.calls, rule)

    def _goals_after(self, step: TaskStep) -> tuple[tuple[GoalState, ...], int]:
        if step.agent_name == USER:
            declared = step.metadata.get("goals") or ()
            return tuple(GoalState.model_validate(goal) for goal in declared) or self.goals, 0
        if step.agent_name == ORCHESTRATOR and REMINDED_GOALS in step.metadata:
            return self.goals, self.reminders + 1
        achieved = step.metadata.get(ACHIEVED_GOALS) or {}
        if not achieved:
            return self.goals, self.reminders
        return tuple(_achieved(goal, achieved.get(goal.name)) for goal in self.goals), self.reminders


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
        state = state.after(step)
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
