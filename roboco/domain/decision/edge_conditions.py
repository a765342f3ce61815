"""edge_conditions: test the conditions on an edge of a routing graph.

A condition tests the agent's current run: its steps and their tool results since it took over. Text and metadata are
those of the last step. Tools and artifacts are those of the whole run, because an agent that calls a tool writes
another step before its run ends.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final

from roboco.domain.history.step import OUTPUT, TaskStep
from roboco.domain.pattern import matches
from roboco.domain.team.condition import Condition

NO_STATE: Final[Mapping[str, Any]] = MappingProxyType({})


def holds(condition: Condition, current_run: tuple[TaskStep, ...], state: Mapping[str, Any] = NO_STATE) -> bool:
    """Return True if every test holds for the agent's current run, which is oldest step first and never empty.

    `state` are the values that the task shares.
    """
    return all(_tests(condition, current_run, state))


def _tests(condition: Condition, current_run: tuple[TaskStep, ...], state: Mapping[str, Any]) -> list[bool]:
    last = current_run[-1]
    tests: list[bool] = []
    if condition.contains is not None:
        tests.append(condition.contains in last.text)
    if condition.matches is not None:
        tests.append(matches(condition.matches, last.text))
    if condition.metadata is not None:
        tests.append(all(_value_at(last.metadata, key) == value for key, value in condition.metadata.items()))
    if condition.output is not None:
        tests.append(all(_value_at(last.metadata.get(OUTPUT), key) == value for key, value in condition.output.items()))
    if condition.state is not None:
        tests.append(all(_value_at(dict(state), key) == value for key, value in condition.state.items()))
    return tests + _tool_tests(condition, current_run) + _nested_tests(condition, current_run, state)


def _tool_tests(condition: Condition, current_run: tuple[TaskStep, ...]) -> list[bool]:
    calls = {call.id: call.tool_name for step in current_run for call in step.calls}
    failed = {calls.get(result.tool_call_id) for step in current_run for result in step.results if result.is_error}
    names = [artifact.name for step in current_run for artifact in step.artifacts]
    tests: list[bool] = []
    if condition.tool_called is not None:
        tests.append(condition.tool_called in calls.values())
    if condition.tool_failed is not None:
        tests.append(condition.tool_failed in failed)
    if condition.artifact is not None:
        tests.append(any(fnmatchcase(name, condition.artifact) for name in names))
    return tests


def _nested_tests(condition: Condition, current_run: tuple[TaskStep, ...], state: Mapping[str, Any]) -> list[bool]:
    tests: list[bool] = []
    if condition.not_ is not None:
        tests.append(not holds(condition.not_, current_run, state))
    if condition.any_ is not None:
        tests.append(any(holds(inner, current_run, state) for inner in condition.any_))
    if condition.all_ is not None:
        tests.append(all(holds(inner, current_run, state) for inner in condition.all_))
    return tests


def _value_at(value: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
