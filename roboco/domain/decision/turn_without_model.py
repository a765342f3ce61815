"""Turns that need no model: of an agent that is a function, and of an agent with a map.

A function:

    decide ─► step of the agent: the call ─► tools worker ─► step of results, with the answer ─► step of the agent: it
              (named as the agent)           (as any call)    (metadata, one commit)             (pure, before all else)

So claims, leases, attempts, effects, approvals, time limits and interruptions of the turn are those of tool calls. The
answer is in the step of results first, because Redis may be lost before its own step is stored. Without an answer in
that step the call was ended from outside, and the agent has its turn again.

A map:

    list ─► a step with a delegating call for each item ─► sub-tasks ─► a step of results ─► a step with their list
     └ empty ─────────────────────────────────────────────────────────────────────────────► a step with an empty list

The list of results is the agent's typed output: an object for each item, in order, with the `item`, and with `text`,
`output` or `error`. All three steps follow from the history.
"""

from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import canonical_json, json_bytes
from roboco.domain.decision.action import AppendStep, Route, error_step
from roboco.domain.decision.budget import refused_calls
from roboco.domain.history.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart, ToolOutcome, ToolResult
from roboco.domain.history.state import AFTER_RESULTS, History
from roboco.domain.history.step import (
    ANSWER,
    FUNCTION,
    GUARDS,
    HANDED_OFF_BY,
    MAP,
    MAX_ANSWER_BYTES,
    OUTPUT,
    PROVIDER,
    USER,
    TaskStep,
)
from roboco.domain.ids import call_id_at
from roboco.domain.limits import Limits
from roboco.domain.team.team import MAX_SUB_TASKS, Agent, Map, Team
from roboco.domain.usage import Usage

FAILED = "function"
"""The error code of a step whose function has failed."""


def begin_turn(agent: Agent, history: History, route: Route, handed_off_by: str | None) -> AppendStep:
    """Return the step with the call that is the agent's turn."""
    about: dict[str, Any] = {"routing": route.record(), FUNCTION: "call"}
    if handed_off_by is not None:
        about[HANDED_OFF_BY] = handed_off_by
    return AppendStep(agent.name, (_call(history, 0, agent.name, {}),), about)


def refused_turn(agent: Agent, limits: Limits, history: History) -> str | None:
    """Return the limit that forbids the function's turn, or None. `max_calls` of the agent counts its turns, too."""
    call = _call(history, 0, agent.name, {}).tool_call
    turn = agent.turn_call
    needed = {call.id: Usage(calls=1) if turn is None else Usage(calls=1, seconds=turn.timeout, cost=turn.price)}
    used = history.state.agent_usage(agent.name)
    counted = {agent.name: used.model_copy(update={"calls": used.calls + used.steps})}
    state = history.state.model_copy(update={"agents": history.state.agents | counted})
    return refused_calls(limits, state, agent.name, (call,), needed).get(call.id)


def recorded_answer(team: Team, step: TaskStep, outcome: ToolOutcome) -> dict[str, Any]:
    """Return the answer that a step of results records of the function's outcome.

    A person, or the function's `verify`, may have given a result: an object or list is the value of a typed answer.
    """
    if outcome.result.is_error:
        return {"error": outcome.result.error}
    if outcome.answer:
        return outcome.answer
    result = outcome.result.result
    if isinstance(result, dict | list):
        typed = team.agent(step.agent_name).output is not None
        return {"text": canonical_json(result)} | ({OUTPUT: result} if typed else {})
    return {"text": str(result)}


def answer_step(team: Team, history: History) -> AppendStep | None:
    """Return the step with the answer that the last step records, or None if it records none of this team."""
    answer: dict[str, Any] | None = history.last.metadata.get(ANSWER)
    if answer is not None and GUARDS in history.last.metadata:
        return AppendStep(answer["agent"], (TextPart(text=answer["text"]),), answer["metadata"])
    name = history.state.last_agent
    if answer is None or name is None or not team.has_agent(name):
        return None
    reason = "its function returned" if "error" not in answer else "its function failed"
    route = Route(name, team.collaboration_model.type, AFTER_RESULTS, reason)
    about = {"routing": route.record(), FUNCTION: "answer"} | {
        key: answer[key] for key in (OUTPUT, PROVIDER) if key in answer
    }
    if "error" in answer:
        return AppendStep(name, (ErrorPart(code=FAILED, message=f"{name}: {answer['error']}"),), about)
    calls = answer.get("calls") or ()
    text = str(answer.get("text") or "")
    parts: tuple[Part, ...] = (TextPart(text=text),) if text or not calls else ()
    made = (_call(history, index, str(one["name"]), one["args"]) for index, one in enumerate(calls))
    return AppendStep(name, (*parts, *made), about)


def _call(history: History, index: int, name: str, args: dict[str, Any]) -> ToolCallPart:
    """Return a call of the next step.

    Its id derives from its arguments, and from the id and content of the step before, which it answers.
    """
    last = history.last
    about = [args, last.text, [[one.result, one.error] for one in last.results]]
    call_id = call_id_at(last.step_id, history.state.steps, index, name, about)
    return ToolCallPart(tool_call=ToolCall(id=call_id, tool_name=name, args=args))


def start_map(agent: str, work: Map, history: History, chosen: Route) -> AppendStep:
    """Return the step with a call for each item, the step with an empty list, or the error of a list that is none."""
    items, problem = _items(work, history)
    if problem:
        return error_step(MAP, f"the map of {agent}: {work.over} {problem}")
    if not items:
        return _list_step(agent, work, [], chosen)
    before, calls = history.last.step_id, list[ToolCallPart]()
    for index, item in enumerate(items):
        args = {"team": work.team, "prompt": item}
        if not isinstance(item, str):
            args |= {"prompt": canonical_json(item), "item": item}
        call_id = call_id_at(before, history.state.steps, index, DELEGATE, args)
        calls.append(ToolCallPart(tool_call=ToolCall(id=call_id, tool_name=DELEGATE, args=args)))
    return AppendStep(agent, tuple(calls), {MAP: work.over, "routing": chosen.record()})


def finish_map(agent: Agent, history: History, chosen: Route) -> AppendStep | None:
    """Return the step with the list of results, or the error of failed ones. None if there are no results, or if the
    sub-tasks have to start again: the user has interrupted them, or went on after they have failed.
    """
    steps, later = list(history.tail), list[TaskStep]()
    while steps and (steps[-1].is_notice or steps[-1].agent_name == USER):
        later.append(steps.pop())
    if agent.map is None or chosen.rule != AFTER_RESULTS or not (len(steps) > 1 and steps[-2].is_map):
        return None
    if any(step.error is not None and step.error.code == MAP for step in later):
        return None
    results = {result.tool_call_id: result for result in steps[-1].results}
    pairs = [(call, results[call.id]) for call in steps[-2].calls]
    failed = [(number, result) for number, (_, result) in enumerate(pairs, 1) if result.is_error]
    if failed and agent.map.on_error == "fail":
        if any(step.is_retry or step.is_interruption or step.metadata.get("interrupts") for step in later):
            return None
        number, first = failed[0]
        return error_step(
            MAP, f"the map of {agent.name}: {len(failed)} of {len(pairs)} items failed; item {number}: {first.error}"
        )
    return _list_step(agent.name, agent.map, [_entry(*pair) for pair in pairs], chosen)


def item_of(call: ToolCall) -> Any:
    """Return the item of a map's call."""
    return call.args.get("item", call.args["prompt"])


def _items(work: Map, history: History) -> tuple[list[Any], str]:
    """Return the list of the map and "", or no items and the problem."""
    path = work.over.split(".")
    values: Any = {"state": history.state.values, OUTPUT: {}}
    if path[0] == OUTPUT and (seq := history.state.outputs.get(path[1])) is not None:
        step = next((one for one in history.tail if one.seq == seq), None) or history.steps[seq]
        values[OUTPUT] = {path[1]: step.metadata[OUTPUT]}
    for place, name in enumerate(path):
        if not isinstance(values, dict) or name not in values:
            before = ".".join(path[:place])
            return [], f"is not there: {before} has no {name!r} yet"
        values = values[name]
    if not isinstance(values, list):
        return [], f"is no list but {canonical_json(values)[:60]}"
    if len(values) > MAX_SUB_TASKS:
        return [], f"has {len(values)} items, at most {MAX_SUB_TASKS} are possible"
    return values, ""


def _entry(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    item = {"item": item_of(call)}
    if result.is_error:
        return item | {"error": result.error}
    if not isinstance(result.result, dict):  # a large one, of which an artifact has the whole
        return item | {"text": str(result.result)}
    shown = {name: value for name, value in result.result.items() if name != "text" or OUTPUT not in result.result}
    return item | shown


def _list_step(agent: str, work: Map, entries: list[dict[str, Any]], chosen: Route) -> AppendStep:
    """Return the step with the list. If it is too large, an error replaces each entry that exceeds an equal part."""
    if json_bytes(entries) > MAX_ANSWER_BYTES:
        part = MAX_ANSWER_BYTES // len(entries)
        entries = [_shortened(entry, size) if (size := json_bytes(entry)) >= part else entry for entry in entries]
    metadata = {MAP: work.over, OUTPUT: entries, "routing": chosen.record()}
    return AppendStep(agent, (TextPart(text=canonical_json(entries)),), metadata)


def _shortened(entry: dict[str, Any], size: int) -> dict[str, Any]:
    task_id = entry.get("task_id", "")
    return {"task_id": task_id, "error": f"{size} bytes are too many for this list; sub-task {task_id} has them"}
