"""Explanations: which agent acted in a task and why, for readers who do not know how teams are routed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roboco.domain.decision.decide import ROUTER, ROUTER_LOST
from roboco.domain.decision.situation import Situation
from roboco.domain.decision.tool_calls import RESOLVED_BY
from roboco.domain.history.part import ToolCall
from roboco.domain.history.retry import retry_of
from roboco.domain.history.state import ACHIEVED_GOALS, AFTER_RESULTS, REMINDED_GOALS, WRAP_UP_RULE, History
from roboco.domain.history.step import NEW_LIMITS, ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.replay.describe import describe
from roboco.domain.replay.evidence import decide_with_results, history_prefixes
from roboco.domain.replay.replay import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom, Edge, Graph
from roboco.domain.team.team import Team
from roboco.errors import NotFound

_MAX_TEXT_CHARS = 200
"""The largest number of characters of a quoted text."""


@dataclass(frozen=True)
class Candidate:
    """A possible agent or edge."""

    name: str
    taken: bool
    """True if it was chosen."""
    why: str = ""
    """The reason why it was not chosen."""


@dataclass(frozen=True)
class StepExplanation:
    """The explanation of one step: the events before it, the choice of its agent, and its content."""

    seq: int
    step_id: str
    agent_name: str
    before: tuple[str, ...]
    why: str
    router: str
    rule: str
    reason: str
    candidates: tuple[Candidate, ...]
    events: tuple[str, ...]


def explain(past: RecordedTask, chosen: str | None = None) -> tuple[StepExplanation, ...]:
    """Return the explanations of all steps by agents, or of the one step with this position or id.

    Raise UsageError if there is no such step.
    """
    wanted = None if chosen is None else _position(past.steps, chosen)
    scenes: list[StepExplanation] = []
    for history, step in zip((None, *history_prefixes(past.steps)), past.steps, strict=False):
        if step.seq == wanted or (wanted is None and step.by_agent):
            scenes.append(_explain_step(past, history, step))
    return tuple(scenes)


def current_status(past: RecordedTask) -> str:
    """Return the reason why the task ended or waits, or its next action."""
    status, reason = past.status, past.reason
    if status.ended:
        return f"the task ended ({status}): {_end_reason(past)}"
    waits = {
        TaskStatus.USER_TURN: "it is the user's turn",
        TaskStatus.APPROVAL: "it waits for a person's decision",
        TaskStatus.CLIENT_TOOL_TURN: "it waits for the client to run a tool",
        TaskStatus.PAUSED: "it is paused",
    }
    if status in waits:
        return f"{waits[status]}: {reason}" if reason else waits[status]
    if reason:  # its turn is deferred
        return f"it waits ({status}): {reason}"
    *_, history = history_prefixes(past.steps)
    custom = isinstance(past.team.collaboration_model, Custom)
    if custom or (history.last.calls and not past.team.has_agent(history.last.agent_name)):
        return f"it is being worked on ({status})"
    asked = decide_with_results(past.team, history, Situation(sub_task=past.sub_task), past.router, {})
    return f"it is being worked on ({status}); next: {describe(asked.action)}"


def _end_reason(past: RecordedTask) -> str:
    last, reason = past.steps[-1], past.reason
    code = last.error.code if last.error is not None else ""
    texts = {
        "stopped": "the user stopped it",
        "goals": "goals were still open, although its agents had been reminded of them",
        "limit": "a limit was reached",
        "loop": "its agents were in a loop",
        "attempts": "its attempts were exhausted",
        ROUTER: "the team's router chose no agent of the team",
        ROUTER_LOST: "the workers that ran the team's router were lost",
    }
    if code in texts:
        return f"{texts[code]}: {reason}"
    if code:
        return f"{last.agent_name} failed: {reason}"
    return f"no agent is next: {reason}"


def _position(steps: Sequence[TaskStep], chosen: str) -> int:
    for step in steps:
        if chosen in (str(step.seq), step.step_id):
            return step.seq
    agents = [str(step.seq) for step in steps if step.by_agent]
    shown = ", ".join(agents if len(agents) <= 40 else [*agents[:20], "...", *agents[-20:]])
    last = f"the task has the steps 0 to {len(steps) - 1}"
    raise NotFound(f"step: no step {chosen[:80]!r}; {last}, those of agents are {shown or 'none yet'}")


def _explain_step(past: RecordedTask, history: History | None, step: TaskStep) -> StepExplanation:
    routing = step.metadata.get("routing") or {}
    before = _before(past.steps, step.seq)
    names = tuple(map(str, routing.get("candidates") or ()))
    own = past.team if step.seq >= past.first else None
    return StepExplanation(
        seq=step.seq,
        step_id=step.step_id,
        agent_name=step.agent_name,
        before=tuple(before),
        why=_why(past, history, step),
        router=str(routing.get("router", "")),
        rule=str(routing.get("rule", "")),
        reason=str(routing.get("reason", "")),
        candidates=tuple(_candidates(own, history, names, routing)),
        events=tuple(_events_of(past.steps, step)),
    )


def _before(steps: Sequence[TaskStep], seq: int) -> Iterator[str]:
    """Yield the events since the previous step of an agent, beginning with that step."""
    start = next((place for place in range(seq - 1, 0, -1) if steps[place].by_agent), 0)
    for step in steps[start:seq]:
        yield from _events_of(steps, step)


def _why(past: RecordedTask, history: History | None, step: TaskStep) -> str:
    """Return the reason for the step in plain words."""
    if not step.by_agent:
        return _why_no_agent(step)
    if step.is_imported:
        return "it was imported when the task was submitted"
    routing = step.metadata.get("routing") or {}
    rule, reason = str(routing.get("rule", "")), str(routing.get("reason", ""))
    last = None if history is None else history.state.last_agent
    goals = [] if history is None else [goal.name for goal in history.state.open_goals]
    texts = {
        AFTER_RESULTS: "the tools that it had called returned, and it continued with their results",
        "handoff": f"{last} handed the work over to it: {reason}",
        "goals": f"the work seemed to be done, but goals were still open: {', '.join(goals)}",
        WRAP_UP_RULE: f"a limit was reached, and it wraps up in one last turn: {reason}",
    }
    if rule in texts:
        why = texts[rule]
    elif " -> " in rule and rule in (routing.get("candidates") or ()):
        node, _, way = rule.partition("[")
        number = int(way.partition("]")[0]) + 1 if way.partition("]")[0].isdigit() else 1
        why = f"edge {number} of {node}, to {step.agent_name}, was the first that applied: {reason}"
    else:
        why = reason or "the step does not say why"
    taken_over = step.seq < past.first and past.first > 1
    return f"{why} (in the task from which this one was forked)" if taken_over else why


def _why_no_agent(step: TaskStep) -> str:
    routing = step.metadata.get("routing") or {}
    match step.agent_name:
        case _ if step.agent_name == USER and routing:
            return f"it was the user's turn: {routing.get('reason', '')}"
        case _ if step.agent_name == USER:
            return "the user sent a message"
        case _ if step.agent_name == TOOL_EXECUTOR:
            return "all calls of the step before were answered"
        case _ if step.is_interruption:
            return f"the user{_caller(step)} interrupted the work"
        case _ if step.is_retry:
            return f"a person{_caller(step)} retried the failed task"
        case _:
            return f"the work seemed to be done: {routing.get('reason', '')}" if routing else "Roboco recorded it"


def _candidates(
    team: Team | None, history: History | None, names: tuple[str, ...], routing: dict[str, Any]
) -> Iterator[Candidate]:
    edges = _edges(team, history, names)
    passed = False
    for index, name in enumerate(names):
        taken = name in (routing.get("rule"), routing.get("to"))
        why = "taken" if taken else "not checked, since an earlier edge applied" if passed and edges else ""
        if not taken and not passed and edges and history is not None:
            why = _unapplied_reason(edges[index], history.state.rules.get(name, 0))
        passed = passed or taken
        yield Candidate(name, taken, why)


def _edges(team: Team | None, history: History | None, names: tuple[str, ...]) -> tuple[Edge, ...]:
    """Return the edges that the candidates are, or nothing if they are not edges of the team's graph."""
    if team is None or history is None or not isinstance(team.collaboration_model, Graph):
        return ()
    node = history.last.agent_name
    edges = team.collaboration_model.routing_graph.get(node, ())
    same = names == tuple(f"{node}[{index}] -> {edge.to}" for index, edge in enumerate(edges))
    return edges if same and history.last.by_agent else ()


def _unapplied_reason(edge: Edge, taken: int) -> str:
    if edge.max_times is not None and taken >= edge.max_times:
        return f"did not apply: it was taken {taken} times before, and max_times is {edge.max_times}"
    if edge.when is None:
        return ""
    test = edge.when.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return f"did not apply: its condition did not hold: {_truncated(json.dumps(test, ensure_ascii=False))}"


def _events_of(steps: Sequence[TaskStep], step: TaskStep) -> Iterator[str]:
    """Yield the events of the step, a line each."""
    if step.agent_name == USER:
        yield from _user_events(step)
    elif step.agent_name == TOOL_EXECUTOR:
        yield from _result_events(steps, step)
    elif step.agent_name == ORCHESTRATOR:
        yield _orchestrator_event(step)
    else:
        yield from _agent_events(step)


def _user_events(step: TaskStep) -> Iterator[str]:
    how = "interrupted the work and said" if step.metadata.get("interrupts") else "said"
    whom = f" to {step.metadata['agent']}" if step.metadata.get("agent") else ""
    yield f"the user{_caller(step)} {how}{whom}: {_quoted(step.text)}"
    if goals := step.metadata.get("goals"):
        yield f"the user asked for these goals: {', '.join(str(goal.get('name')) for goal in goals)}"
    if tools := step.metadata.get("client_tools"):
        yield f"the client declared these tools: {', '.join(str(tool.get('name')) for tool in tools)}"


def _agent_events(step: TaskStep) -> Iterator[str]:
    if step.text or not (step.calls or step.error):
        yield f"{step.agent_name} said: {_quoted(step.text)}"
    if step.interrupted:
        yield f"{step.agent_name} was interrupted there"
    for call in step.calls:
        yield f"{step.agent_name} called {call.tool_name}({_args(call)})"
    if step.error is not None:
        yield f"{step.agent_name}'s turn failed ({step.error.code}): {_truncated(step.error.message)}"


def _result_events(steps: Sequence[TaskStep], step: TaskStep) -> Iterator[str]:
    calls = {call.id: call for call in steps[step.seq - 1].calls} if step.seq else {}
    verdicts, resolved = step.metadata.get("approvals") or {}, step.metadata.get("resolved") or {}
    callers = step.metadata.get(RESOLVED_BY) or {}
    for result in step.results:
        name = calls[result.tool_call_id].tool_name if result.tool_call_id in calls else "a tool"
        verdict = verdicts.get(result.tool_call_id)
        if verdict is not None:
            person = f"a person{_in_brackets(verdict.get('by'))}"
            yield f"{person} {'approved' if verdict.get('approved') else 'did not approve'} {name}"
        elif result.tool_call_id in resolved:
            yield f"the answer to {name} came from outside{_in_brackets(callers.get(result.tool_call_id))}"
        if result.is_error:
            yield f"{name} failed: {_truncated(result.error or 'error')}"
        else:
            yield f"{name} returned {_truncated(json.dumps(result.result, ensure_ascii=False))}"
    for goal in step.metadata.get(ACHIEVED_GOALS) or {}:
        yield f"goal {goal} was achieved"


def _orchestrator_event(step: TaskStep) -> str:
    if step.error is not None:
        return f"{step.error.code}{_caller(step)}: {_truncated(step.error.message)}"
    if goals := step.metadata.get(REMINDED_GOALS):
        return f"the agents were reminded of goals that were still open: {', '.join(map(str, goals))}"
    if step.is_interruption:
        return f"the user{_caller(step)} interrupted the work"
    if (retry := retry_of(step)) is not None:
        why = f": {_truncated(retry.reason)}" if retry.reason else ""
        limits = f", with other limits: {_truncated(json.dumps(retry.limits))}" if retry.limits else ""
        return f"a person{_caller(step)} retried the failed task{why}{limits}"
    if NEW_LIMITS in step.metadata:
        limits = json.dumps(step.metadata[NEW_LIMITS], ensure_ascii=False)
        return f"the limits were raised{_caller(step)}: {_truncated(limits)}"
    return _truncated(step.text)


def _caller(step: TaskStep) -> str:
    """Return the caller whose item the step applies, in brackets, or ""."""
    return _in_brackets(step.metadata.get("by"))


def _in_brackets(by: object) -> str:
    return f" ({by})" if isinstance(by, str) else ""


def _args(call: ToolCall) -> str:
    return _truncated(", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.args.items()))


def _quoted(text: str) -> str:
    return f"“{_truncated(text)}”" if text.strip() else "nothing"


def _truncated(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_CHARS else f"{line[: _MAX_TEXT_CHARS - 1]}…"
