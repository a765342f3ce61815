"""map_turn: the turn of an agent with a map, which needs no model.

    list ─► a step with a delegating call for each item ─► sub-tasks ─► a step of results ─► a step with their list
     └ empty ─────────────────────────────────────────────────────────────────────────────► a step with an empty list

The list of results is the agent's typed output: an object for each item, in order, with the `item`, and with `text`,
`output` or `error`. All three steps follow from the history.
"""

from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import canonical_json, json_bytes
from roboco.domain.decision.action import AppendStep, error_step
from roboco.domain.decision.route import Route
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart, ToolResult
from roboco.domain.history.state import AFTER_RESULTS, History
from roboco.domain.history.step import MAP, MAX_ANSWER_BYTES, OUTPUT, USER, TaskStep
from roboco.domain.ids import call_id_at
from roboco.domain.team.team import MAX_SUB_TASKS, Agent, Map


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
    """Return the entry of an item in the list of results."""
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
