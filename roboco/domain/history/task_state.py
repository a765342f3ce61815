"""TaskState: the state of a task after its steps, which limits, routers and displays read."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.goal import GoalState
from roboco.domain.history.part import ToolCall, ToolResult
from roboco.domain.limits import Limits
from roboco.domain.schema import RecordModel
from roboco.domain.usage import DayUsage, Usage

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

    def limits_since(self, started: datetime) -> datetime:
        """Return the time from which limits of seconds count, for a task that was submitted or forked at `started`."""
        return started if self.retried_at is None else max(started, self.retried_at)

    @property
    def open_goals(self) -> tuple[GoalState, ...]:
        """Return the goals that are not achieved yet."""
        return tuple(goal for goal in self.goals if goal.status == "open")
