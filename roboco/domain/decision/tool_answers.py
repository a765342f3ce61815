"""Outcomes of tool calls that no tools worker runs: hand-offs, goals, refusals, and results from outside."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roboco.domain.builtin_tools import BUILTIN_TOOLS, CLIENT_PREFIX, DELEGATE, GOAL_PREFIX, HANDOFF
from roboco.domain.decision.budget import refused_calls
from roboco.domain.history.part import (
    ToolCall,
    ToolOutcome,
    failed_outcome,
    not_executed_outcome,
    successful_outcome,
    unknown_outcome,
)
from roboco.domain.history.step import GUARDS, TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.inbox.item import ApprovalDecision, ExternalToolResult, Item, UnknownResolution
from roboco.domain.team.team import Agent, Team, default_prefix
from roboco.domain.team.tool_spec import ToolDeclaration
from roboco.domain.usage import Usage

BUILTIN_TIMEOUT = 60.0
"""The timeout of a built-in tool's call, in seconds."""


@dataclass(frozen=True)
class ExternalResult:
    """The outcome of a call as a client or person reports it."""

    item_id: str
    """The inbox item with the report."""
    outcome: ToolOutcome
    by: str | None = None
    """The caller that reported it. For a denial it is None: the decision itself names its caller."""
    answer_form: dict[str, Any] = field(default_factory=dict)
    """The form of the answer that it demands, or {}."""


def needs_resolution(outcome: ToolOutcome | None) -> bool:
    """Return True if a person must resolve the outcome."""
    return outcome is not None and outcome.unknown == "ask"


def needs_change_approval(outcome: ToolOutcome | None) -> bool:
    """Return True if a person must approve or deny the change of the call's tool."""
    return needs_resolution(outcome) and outcome is not None and outcome.changed


def is_reported(call_id: str, outcomes: Mapping[str, ToolOutcome]) -> bool:
    """Return True if a tools worker has reported the call's result.

    An outcome that waits for a person is not a result.
    """
    return call_id in outcomes and not needs_resolution(outcomes[call_id])


def is_client_call(call: ToolCall) -> bool:
    """Return True if the client runs the call."""
    return call.tool_name.startswith(CLIENT_PREFIX)


def by_coordinator(team: Team, call: ToolCall) -> bool:
    """Return True if a coordinator starts the work for the call elsewhere: a sub-task, or a shop's Celery task."""
    return call.tool_name == DELEGATE or team.task_tool(call.tool_name) is not None


def waits_for_client(team: Team, call: ToolCall) -> bool:
    """Return True if the task waits until the client has run the call. A run of `what-if` has no client."""
    return is_client_call(call) and team.what_if is None


def needs_approval(team: Team, call: ToolCall) -> bool:
    """Return True if the task waits until a person approves the call. A run of `what-if` never waits for that."""
    return team.what_if is None and requires_approval(team, call)


def requires_approval(team: Team, call: ToolCall) -> bool:
    """Return True if a person must approve the call before it runs."""
    spec = team.tool(call.tool_name)
    if spec is None or isinstance(spec.approval, str):
        return spec is not None and spec.approval == "required"
    return spec.approval.applies_to(call.args)


def approval_decisions(step: TaskStep, inbox: Iterable[Item]) -> dict[str, ApprovalDecision]:
    """Return the decisions of persons on the calls of a step that need approval. The first one on a call counts."""
    found: dict[str, ApprovalDecision] = {}
    for item in inbox:
        if isinstance(item, ApprovalDecision) and item.at_seq == step.seq:
            found.setdefault(item.call_id, item)
    return found


def external_results(
    step: TaskStep, inbox: Iterable[Item], outcomes: Mapping[str, ToolOutcome]
) -> dict[str, ExternalResult]:
    """Return the outcomes of the step's calls from the inbox. The first item on a call counts."""
    calls = {call.id: call for call in step.calls}
    results: dict[str, ExternalResult] = {}
    for item in inbox:
        match item:
            case UnknownResolution() if needs_resolution(outcomes.get(item.call_id)) and item.call_id in calls:
                known = outcomes[item.call_id]
                results.setdefault(
                    item.call_id,
                    ExternalResult(item.item_id, _resolved_outcome(calls[item.call_id], item, known), item.by),
                )
            case ExternalToolResult() if item.at_seq == step.seq and not is_reported(item.call_id, outcomes):
                results.setdefault(item.call_id, ExternalResult(item.item_id, item.outcome, item.by, item.answer_form))
            case ApprovalDecision() if item.at_seq == step.seq and not item.approved:
                results.setdefault(item.call_id, ExternalResult(item.item_id, denial(item)))
            case _:
                pass
    return results


def ended_outcome(spec: ToolDeclaration | None, call_id: str, why: str, runtime_ms: int = 0) -> ToolOutcome:
    """Return the outcome of a call that has ended without a result: unknown if it is irreversible, else a failure."""
    if spec is None or spec.effect != "irreversible":
        return failed_outcome(call_id, why, runtime_ms)
    return unknown_outcome(call_id, why, spec.on_unknown, runtime_ms)


def denial(verdict: ApprovalDecision) -> ToolOutcome:
    """Return the outcome of a call that a person denied."""
    if verdict.expired is not None:
        return failed_outcome(verdict.call_id, f"{verdict.reason}, and the call was not run")
    why = f": {verdict.reason}" if verdict.reason else ""
    return failed_outcome(verdict.call_id, f"a person did not approve this call, and it was not run{why}")


def _resolved_outcome(call: ToolCall, item: UnknownResolution, known: ToolOutcome) -> ToolOutcome:
    if known.changed:
        return _decided_change(call, item)
    if not item.happened:
        return not_executed_outcome(call.id)
    return successful_outcome(call, "the call had its effect" if item.result is None else item.result)


def _decided_change(call: ToolCall, item: UnknownResolution) -> ToolOutcome:
    """Return the outcome of a call whose tool had changed. It never ran: its arguments were made for the old tool."""
    if item.happened:
        message = "not run: the tool had changed, and a person has approved the change: read it again, then call it"
    else:
        why = f": {item.result}" if item.result else ""
        message = f"not run: the tool has changed, and a person did not approve the change{why}"
    return failed_outcome(call.id, message)


def local_answers(team: Team, state: TaskState, step: TaskStep) -> dict[str, ToolOutcome]:
    """Return the outcomes of a step's calls that no worker runs: hand-offs, goals and refusals."""
    if GUARDS in step.metadata:
        return {}
    agent = team.agent(step.agent_name)
    invalid = step.metadata.get("invalid_calls") or {}
    unlisted = step.metadata.get("unlisted_calls") or {}
    offered = (step.metadata.get("context") or {}).get("offered") or ()
    answers: dict[str, ToolOutcome] = {}
    done: set[str] = set()
    for call in step.calls:
        if call.id in invalid:
            answers[call.id] = failed_outcome(call.id, f"{invalid[call.id]}; call {call.tool_name!r} again")
        elif call.id in unlisted:
            answers[call.id] = failed_outcome(call.id, unlisted[call.id])
        elif call.tool_name not in offered and (answer := _answer(team, state, agent, call, done)) is not None:
            answers[call.id] = answer
            if not answer.result.is_error:
                done.add(call.tool_name)
    open_calls = tuple(call for call in step.calls if call.id not in answers)
    refused = _refused_by_limits(team, state, step, open_calls)
    return answers | {call_id: failed_outcome(call_id, why) for call_id, why in refused.items()}


def _refused_by_limits(team: Team, state: TaskState, step: TaskStep, calls: tuple[ToolCall, ...]) -> dict[str, str]:
    """Return the calls that the limits refuse, with the reasons."""
    if state.limit is not None:
        return {call.id: f"not run, since this is the last turn: {state.limit}" for call in calls}
    needed = {call.id: _possible_usage(spec_of(team, step, call)) for call in calls}
    return refused_calls(team.limits.with_overrides(state.limit_overrides), state, step.agent_name, calls, needed)


def _possible_usage(spec: ToolDeclaration | None) -> Usage:
    """Return the possible usage of a call of the tool."""
    if spec is None:
        return Usage(calls=1, seconds=BUILTIN_TIMEOUT)
    return Usage(calls=1, seconds=spec.timeout, cost=spec.price)


def cost_of_calls(team: Team, state: TaskState, step: TaskStep) -> float:
    """Return the cost of the step's calls that are run, by the prices of their tools."""
    answered = local_answers(team, state, step)
    return sum(_possible_usage(spec_of(team, step, call)).cost for call in step.calls if call.id not in answered)


def spec_of(team: Team, step: TaskStep, call: ToolCall) -> ToolDeclaration | None:
    """Return the team's own tool for the call of the step, or None for a built-in tool.

    The effect of an MCP server's tool is the one that the step recorded when the agent called it.
    """
    spec = team.tool(call.tool_name)
    effect = (step.metadata.get("effects") or {}).get(call.tool_name)
    return spec if spec is None or effect is None else spec.model_copy(update={"effect": effect})


def _answer(team: Team, state: TaskState, agent: Agent, call: ToolCall, done: set[str]) -> ToolOutcome | None:
    """Return the outcome of a call that no worker runs, or None if a worker or client runs it."""
    name = call.tool_name
    if name == HANDOFF and agent.handoffs:
        return _hand_off(call, agent.handoffs, HANDOFF in done)
    if name == DELEGATE and agent.sub_teams:
        return _refused_delegation(call, agent.sub_teams)
    if name.startswith(GOAL_PREFIX) and any(
        goal.tool_name == name and agent.achieves(goal.name, team) for goal in state.goals
    ):
        return _achieve(state, call, name in done)
    if (agent.code is not None and name == agent.name) or agent.own_tool(name):  # its turn, or a tool of its code
        return None
    if name in state.client_tools_of(agent.name) or (
        team.may_call(agent, name) and (name in BUILTIN_TOOLS or team.tool(name) is not None)
    ):
        return None
    possible = ", ".join(_possible(team, state, agent)) or "no tools"
    return failed_outcome(call.id, f"tool {name[:80]!r} is not on your list; you may call: {possible}")


def _possible(team: Team, state: TaskState, agent: Agent) -> list[str]:
    own = [name for name, allowed in ((HANDOFF, agent.handoffs), (DELEGATE, agent.delegates)) if allowed]
    tools = (_shown_name(team, name) for name in team.tools_of(agent))
    return [
        *tools,
        *own,
        *state.client_tools_of(agent.name),
        *(goal.tool_name for goal in state.goals if agent.achieves(goal.name, team)),
    ]


def _shown_name(team: Team, name: str) -> str:
    """Return the name, or the prefix of the tools of a server that allows all."""
    server = team.server_of_entry(name)
    return name if server is None else f"{team.mcp_servers[server].name_prefix(default_prefix(server))}..."


def _hand_off(call: ToolCall, allowed: tuple[str, ...], already: bool) -> ToolOutcome:
    destination = call.args.get("destination_agent")
    if already:
        return failed_outcome(call.id, "the work was already handed off by another call of this step")
    if destination not in allowed:
        return failed_outcome(
            call.id,
            f"you cannot hand off to {str(destination)[:80]!r}; possible destinations: {', '.join(allowed)}",
        )
    return successful_outcome(call, f"the work is handed off to {destination}")


def _refused_delegation(call: ToolCall, allowed: tuple[str, ...]) -> ToolOutcome | None:
    team, prompt = call.args.get("team"), call.args.get("prompt")
    if team not in allowed:
        return failed_outcome(
            call.id, f"you cannot delegate to {str(team)[:80]!r}; possible teams: {', '.join(allowed)}"
        )
    if not isinstance(prompt, str) or not prompt.strip():
        return failed_outcome(call.id, "'prompt' must be a text with the work for the team")
    return None


def _achieve(state: TaskState, call: ToolCall, already: bool) -> ToolOutcome:
    [goal] = [goal for goal in state.goals if goal.tool_name == call.tool_name]
    if already or goal.status != "open":
        return failed_outcome(call.id, f"goal {goal.name!r} was achieved before; its first outcome remains")
    return successful_outcome(call, f"goal {goal.name!r} is achieved")
