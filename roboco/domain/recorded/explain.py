"""Explanations: which agent acted in a task and why, for readers who do not know how teams are routed."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, assert_never

from roboco.domain.decision.action import Action, AppendStep, CallTools, End, Situation, StartTurn, Wait
from roboco.domain.decision.answer_checks import GUARD
from roboco.domain.decision.decide import ROUTER, ROUTER_LOST, decide
from roboco.domain.history.part import ErrorPart, TextPart, ToolResultPart
from roboco.domain.history.state import AFTER_RESULTS, REMINDED_GOALS, WRAP_UP_RULE, History, fold, state_after
from roboco.domain.history.step import FUNCTION, MAP, NEW_LIMITS, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.recorded.recorded_task import TAIL_LENGTH, RecordedTask
from roboco.domain.recorded.step_events import caller_in_brackets, events_of, remote_events, truncated
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom, Edge, Graph
from roboco.errors import NotFound


def rule_of(action: Action) -> str:
    """Return the rule that chose an agent or the user, or "" if there is none."""
    if isinstance(action, AppendStep):
        return str((action.metadata.get("routing") or {}).get("rule", ""))
    return action.route.rule if isinstance(action, StartTurn | Wait) else ""


def describe(action: Action, before: tuple[Action, ...] = ()) -> str:
    """Return a description of the action, after those of the actions before it."""
    return ", then ".join(_describe_action(one) for one in (*before, action))


def _describe_action(action: Action) -> str:
    match action:
        case StartTurn():
            return f"{action.agent} acts ({action.route.router}: {action.route.rule})"
        case CallTools():
            return f"tools run: {', '.join(call.tool_name for call in action.calls)}"
        case AppendStep():
            return _describe_step(action)
        case Wait():
            return f"waits ({action.status}): {action.route.reason}"
        case End():
            return f"ends ({action.status}): {action.reason}"
        case unknown:
            assert_never(unknown)


def _describe_step(step: AppendStep) -> str:
    if step.agent_name == USER:
        rule = rule_of(step)
        return f"the user's message is applied ({rule})" if rule else "the user's message is applied"
    if step.agent_name == TOOL_EXECUTOR:
        results = [part.tool_result for part in step.parts if isinstance(part, ToolResultPart)]
        failed = sum(result.is_error for result in results)
        failures = f", {failed} of them errors" if failed else ""
        return f"{len(results)} result{'s' if len(results) != 1 else ''}{failures}"
    if step.metadata.get(FUNCTION) == "call":
        return f"{step.agent_name} acts, a function ({rule_of(step)})"
    if goals := step.metadata.get(REMINDED_GOALS):
        return f"the agent is reminded of open goals: {', '.join(map(str, goals))}"
    if NEW_LIMITS in step.metadata:
        return "the limits are raised"
    errors = [f"{part.code}: {part.message}" for part in step.parts if isinstance(part, ErrorPart)]
    return errors[0] if errors else "".join(part.text for part in step.parts if isinstance(part, TextPart))


GetState = Callable[[], TaskState]
"""Returns the state before a step. It may fold all steps before it."""


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

    Cost of one step: the steps since the previous one of an agent. The steps before it are folded only if the step's
    explanation needs their state: goals that were open, or how often an edge was taken.
    Raise UsageError if there is no such step.
    """
    if chosen is not None:
        seq = _position(past.steps, chosen)
        return (_explain_step(past, past.steps[seq], lambda: fold(islice(past.steps, seq))),)
    scenes: list[StepExplanation] = []
    before = TaskState()
    for step in past.steps:
        if step.by_agent:
            scenes.append(_explain_step(past, step, lambda state=before: state))  # type: ignore[misc]
        before = state_after(before, step)
    return tuple(scenes)


def current_status(past: RecordedTask) -> str:
    """Return the reason why the task ended or waits, or its next action."""
    status, reason = past.status, past.reason
    if status.ended:
        return "; ".join((f"the task ended ({status}): {_end_reason(past)}", *remote_events(past.steps[-1])))
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
    history = History(past.state or fold(past.steps), tuple(past.steps[-TAIL_LENGTH:]), past.steps)
    custom = isinstance(past.team.collaboration_model, Custom)
    if custom or (history.last.calls and not past.team.has_agent(history.last.agent_name)):
        return f"it is being worked on ({status})"
    action = decide(past.team, history, Situation(sub_task=past.sub_task))
    return f"it is being worked on ({status}); next: {describe(action)}"


def _end_reason(past: RecordedTask) -> str:
    last, reason = past.steps[-1], past.reason
    code = last.error.code if last.error is not None else ""
    texts = {
        "stopped": "the user stopped it",
        "goals": "goals were still open, although its agents had been reminded of them",
        "limit": "a limit was reached",
        "loop": "its agents were in a loop",
        "attempts": "its attempts were exhausted",
        GUARD: "a message or an answer did not pass its guards",
        MAP: "a list of a map was not there, or its sub-tasks failed",
        ROUTER: "the team's router chose no agent of the team",
        ROUTER_LOST: "the workers that ran the team's router were lost",
    }
    if code in texts:
        return f"{texts[code]}: {reason}"
    if code:
        return f"{last.agent_name} failed: {reason}"
    return f"no agent is next: {reason}"


def _position(steps: Sequence[TaskStep], chosen: str) -> int:
    if chosen.isdecimal() and chosen.isascii() and int(chosen) < len(steps):
        return int(chosen)
    for step in steps:
        if chosen == step.step_id:
            return step.seq
    agents = [str(step.seq) for step in steps if step.by_agent]
    shown = ", ".join(agents if len(agents) <= 40 else [*agents[:20], "...", *agents[-20:]])
    last = f"the task has the steps 0 to {len(steps) - 1}"
    raise NotFound(f"step: no step {chosen[:80]!r}; {last}, those of agents are {shown or 'none yet'}")


def _explain_step(past: RecordedTask, step: TaskStep, state: GetState) -> StepExplanation:
    routing = step.metadata.get("routing") or {}
    before = _before(past.steps, step.seq)
    names = tuple(map(str, routing.get("candidates") or ()))
    edges = _edges(past, step, names)
    return StepExplanation(
        seq=step.seq,
        step_id=step.step_id,
        agent_name=step.agent_name,
        before=tuple(before),
        why=_why(past, step, state),
        router=str(routing.get("router", "")),
        rule=str(routing.get("rule", "")),
        reason=str(routing.get("reason", "")),
        candidates=tuple(_candidates(edges, names, routing, state)),
        events=tuple(events_of(past.steps, step)),
    )


def _before(steps: Sequence[TaskStep], seq: int) -> Iterator[str]:
    for step in steps[_last_turn(steps, seq) or 0 : seq]:
        yield from events_of(steps, step)


def _last_turn(steps: Sequence[TaskStep], seq: int) -> int | None:
    return next((place for place in range(seq - 1, -1, -1) if steps[place].by_agent), None)


def _why(past: RecordedTask, step: TaskStep, state: GetState) -> str:
    if not step.by_agent:
        return _why_no_agent(step)
    if step.is_imported:
        return "it was imported when the task was submitted"
    routing = step.metadata.get("routing") or {}
    rule, reason = str(routing.get("rule", "")), str(routing.get("reason", ""))
    if rule == AFTER_RESULTS and step.metadata.get(FUNCTION) != "answer":
        tools = "the tools that it had called returned, and it continued with their results"
        why = "all sub-tasks of its map have ended" if step.is_map else tools
    elif rule == "handoff":
        turn = _last_turn(past.steps, step.seq)
        why = f"{None if turn is None else past.steps[turn].agent_name} handed the work over to it: {reason}"
    elif rule == "goals":
        goals = ", ".join(goal.name for goal in state().open_goals)
        why = f"the work seemed to be done, but goals were still open: {goals}"
    elif rule == WRAP_UP_RULE:
        why = f"a limit was reached, and it wraps up in one last turn: {reason}"
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
            return f"the user{caller_in_brackets(step)} interrupted the work"
        case _ if step.is_retry:
            return f"a person{caller_in_brackets(step)} retried the failed task"
        case _:
            return f"the work seemed to be done: {routing.get('reason', '')}" if routing else "Roboco recorded it"


def _candidates(
    edges: tuple[Edge, ...], names: tuple[str, ...], routing: dict[str, Any], state: GetState
) -> Iterator[Candidate]:
    passed = False
    for index, name in enumerate(names):
        taken = name in (routing.get("rule"), routing.get("to"))
        why = "taken" if taken else "not checked, since an earlier edge applied" if passed and edges else ""
        if not taken and not passed and edges:
            why = _unapplied_reason(edges[index], name, state)
        passed = passed or taken
        yield Candidate(name, taken, why)


def _edges(past: RecordedTask, step: TaskStep, names: tuple[str, ...]) -> tuple[Edge, ...]:
    """Return the edges that the candidates are, or nothing if they are not edges of the team's graph."""
    model = past.team.collaboration_model
    if step.seq < max(1, past.first) or not isinstance(model, Graph):
        return ()
    last = past.steps[step.seq - 1]
    edges = model.routing_graph.get(last.agent_name, ())
    same = names == tuple(f"{last.agent_name}[{index}] -> {edge.to}" for index, edge in enumerate(edges))
    return edges if same and last.by_agent else ()


def _unapplied_reason(edge: Edge, name: str, state: GetState) -> str:
    if edge.max_times is not None and (taken := state().rules.get(name, 0)) >= edge.max_times:
        return f"did not apply: it was taken {taken} times before, and max_times is {edge.max_times}"
    if edge.when is None:
        return ""
    test = edge.when.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return f"did not apply: its condition did not hold: {truncated(json.dumps(test, ensure_ascii=False))}"
