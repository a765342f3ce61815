"""Routers: pure functions of team and history that choose the next agent and give the reason.

A condition on an edge of a graph tests the agent's current run: its steps and their tool results since it took over.
Text and metadata are those of the last step. Tools and artifacts are those of the whole run, because an agent that
calls a tool writes another step before its run ends.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, assert_never

from roboco.domain.decision.action import Route
from roboco.domain.history.state import History, fold
from roboco.domain.history.step import OUTPUT, USER, TaskStep
from roboco.domain.pattern import matches
from roboco.domain.team.collaboration import END, TO_USER, Custom, Edge, Graph, Manual, Sequential
from roboco.domain.team.condition import Condition
from roboco.domain.team.team import Team

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


Router = Callable[[Team, History], Route]


def route(team: Team, history: History) -> Route:
    """Return the route by the team's own router.

    Raise TypeError for a custom router, which only a process that can import it may call.
    """
    if not history.last.by_agent and (named := _named_by_user(team, history)):
        return named
    match team.collaboration_model:
        case Sequential() as model:
            return _sequential(team, model, history)
        case Manual():
            names = tuple(agent.name for agent in team.agents)
            if history.last.by_agent:
                return Route(TO_USER, "manual", "user", "after every turn the user decides", names)
            return _first_or_last(team, history, "manual", names)
        case Graph() as model:
            return _graph(team, model, history)
        case Custom() as model:
            raise TypeError(f"router {model.router!r} must be imported before it can decide")
        case unknown:
            assert_never(unknown)


class TeamRouter:
    """The router of a team, for programs that hold a history. `function` is that of a custom one."""

    def __init__(self, team: Team, function: Router = route) -> None:
        self._team = team
        self._function = function

    def select_next_agent(self, history: Iterable[TaskStep]) -> str:
        """Return the name of the agent that acts after these steps, "USER" or "END"."""
        steps = tuple(step.model_copy(update={"seq": seq}) for seq, step in enumerate(history))
        return self._function(self._team, History(fold(steps), steps)).to


def _named_by_user(team: Team, history: History) -> Route | None:
    name = _named(history)
    if name is None or not team.has_agent(name):
        return None
    kind = team.collaboration_model.type
    return Route(name, kind, "named", f"the user named {name}", tuple(a.name for a in team.agents))


def _named(history: History) -> str | None:
    """Return the agent that the user named last, in the messages since an agent's step."""
    for step in reversed(history.tail):
        if step.agent_name != USER:
            return None
        if isinstance(name := step.metadata.get("agent"), str):
            return name
    return None


def _sequential(team: Team, model: Sequential, history: History) -> Route:
    order = tuple(agent.name for agent in team.agents)
    last = history.state.last_agent
    place = order.index(last) + 1 if last in order else 0
    done = history.state.turns.get(order[-1], 0)
    if place < len(order):
        return Route(order[place], "sequential", "next", f"{order[place]} is number {place + 1} in the order", order)
    if not history.last.by_agent and last in order:
        return Route(last, "sequential", "answers", f"{last} spoke last and answers the user", order)
    if done < model.rounds:
        return Route(order[0], "sequential", "next round", f"round {done + 1} of {model.rounds} begins", order)
    rounds = "1 round is" if model.rounds == 1 else f"{model.rounds} rounds are"
    return Route(END, "sequential", "rounds done", f"{rounds} done", order)


def _first_or_last(team: Team, history: History, router: str, candidates: tuple[str, ...]) -> Route:
    last = history.state.last_agent
    if last is not None and team.has_agent(last):
        return Route(last, router, "answers", f"{last} spoke last and answers the user", candidates)
    first = team.initial_agent
    return Route(first, router, "initial", f"{first} is the first to act", candidates)


def _graph(team: Team, model: Graph, history: History) -> Route:
    if not history.last.by_agent:
        return _first_or_last(team, history, "graph", tuple(model.routing_graph))
    node = history.last.agent_name
    edges = model.routing_graph.get(node, ())
    candidates = tuple(_rule(node, index, edge) for index, edge in enumerate(edges))
    for edge, rule in zip(edges, candidates, strict=True):
        used_up = edge.max_times is not None and history.state.rules.get(rule, 0) >= edge.max_times
        if not used_up and (edge.when is None or holds(edge.when, history.current_run, history.state.values)):
            return Route(edge.to, "graph", rule, _reason(node, edge), candidates)
    return Route(TO_USER, "graph", f"{node}: no edge", f"no edge of {node} holds", candidates)


def _rule(node: str, index: int, edge: Edge) -> str:
    return f"{node}[{index}] -> {edge.to}"


def _reason(node: str, edge: Edge) -> str:
    if edge.when is None:
        return f"after {node} always"
    tests = edge.when.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return f"{node}: {' and '.join(f'{name} {json.dumps(value, ensure_ascii=False)}' for name, value in tests.items())}"
