"""RoutePlan: the texts by which the agents of a graph reach END, past as many agents as possible."""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from functools import cache
from typing import Final

from roboco.domain.decision.router import holds
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart
from roboco.domain.history.step import TaskStep
from roboco.domain.team.collaboration import END, TO_USER, Graph
from roboco.domain.team.condition import Condition
from roboco.domain.team.team import Team

MAX_VISITS: Final = 40
SAID: Final = "This is a scripted answer of the drill, in some words that arrive one by one."
_UNREACHABLE: Final = 1_000
_CLASSES: Final = (
    (re.compile(r"\\d"), "1"),
    (re.compile(r"\\w"), "a"),
    (re.compile(r"\\s"), " "),
    (re.compile(r"\(\?[a-zA-Z]+\)|\\b|[\^$]"), ""),
)
_NEXT_OPERATORS: Final = re.compile(r"[*+?]|\{\d+(,\d*)?\}")


class RoutePlan:
    """For each agent the text of its first answer, its second one, and so on."""

    def __init__(self, team: Team) -> None:
        self._texts: dict[str, list[str]] = defaultdict(list)
        if isinstance(team.collaboration_model, Graph):
            self._walk(team, team.collaboration_model)

    def text(self, agent: str, visit: int) -> str:
        """Return the agent's answer when it has answered `visit` times before."""
        planned = self._texts.get(agent)
        return planned[min(visit, len(planned) - 1)] if planned else SAID

    def _walk(self, team: Team, graph: Graph) -> None:
        """Follow the graph from its first agent: to an agent that has not acted yet if possible, else towards END."""
        distances = _distances(team, graph)
        taken: Counter[tuple[str, int]] = Counter()
        agent, visited = graph.initial_agent or team.agents[0].name, set[str]()
        for _ in range(MAX_VISITS):
            visited.add(agent)
            options = list(_options(team, graph, agent, taken))
            if not options:
                return
            fresh = [one for one in options if one[2] not in visited | {END, TO_USER}]
            text, number, target = min(fresh or options, key=lambda one: distances.get(one[2], _UNREACHABLE))
            self._texts[agent].append(text)
            taken[agent, number] += 1
            if not team.has_agent(target):
                break
            agent = target
        self._finish(team, graph, distances)

    def _finish(self, team: Team, graph: Graph, distances: dict[str, int]) -> None:
        """Add for each agent the answer that leads to END soonest: an interruption or a fault may add answers."""
        for agent in team.agents:
            options = _options(team, graph, agent.name, Counter())
            nearest = min(options, key=lambda one: distances.get(one[2], _UNREACHABLE), default=None)
            if nearest is not None:
                self._texts[agent.name].append(nearest[0])


def _options(team: Team, graph: Graph, agent: str, taken: Counter[tuple[str, int]]) -> Iterator[tuple[str, int, str]]:
    """Yield the texts that lead to an edge, with the number of the edge, and with its target."""
    edges = graph.routing_graph.get(agent, ())
    for text in dict.fromkeys([SAID, *(f"{SAID} {text}" for edge in edges for text in _literals(edge.when))]):
        run = _hypothetical_run(team, agent, text)
        for number, edge in enumerate(edges):
            is_open = edge.max_times is None or taken[agent, number] < edge.max_times
            if is_open and (edge.when is None or holds(edge.when, run)):
                yield text, number, edge.to
                break


def _hypothetical_run(team: Team, agent: str, text: str) -> tuple[TaskStep, ...]:
    """Return a run in which the agent has called each of its tools without an error, and then said the text."""
    calls = [ToolCall(id=f"tc_{n}", tool_name=name, args={}) for n, name in enumerate(team.agent(agent).tools)]
    called = TaskStep(agent_name=agent, parts=tuple(ToolCallPart(tool_call=call) for call in calls)) if calls else None
    return tuple(filter(None, (called, TaskStep(agent_name=agent, parts=(TextPart(text=text),)))))


def _distances(team: Team, graph: Graph) -> dict[str, int]:
    """Return the number of edges from each node to END, or to the user if no way leads to END."""
    sources: dict[str, set[str]] = defaultdict(set)
    for agent in graph.routing_graph:
        for _, _, target in _options(team, graph, agent, Counter()):
            sources[target].add(agent)
    found = {END: 0, TO_USER: MAX_VISITS}
    for end in (END, TO_USER):
        queue = deque([end])
        while queue:
            node = queue.popleft()
            for source in sources[node] - found.keys():
                found[source] = found[node] + 1
                queue.append(source)
    return found


def _literals(condition: Condition | None) -> Iterator[str]:
    """Yield texts that may meet the condition. A caller checks each one."""
    if condition is None:
        return
    if condition.contains is not None:
        yield condition.contains
    if condition.matches is not None:
        yield from _examples(condition.matches)
    for inner in (*(condition.any_ or ()), *(condition.all_ or ()), *filter(None, (condition.not_,))):
        yield from _literals(inner)
    if condition.all_:
        yield " ".join(text for inner in condition.all_ for text in _literals(inner))


@cache
def _examples(pattern: str) -> tuple[str, ...]:
    """Return texts for the alternatives of a simple pattern, without groups and repetitions."""
    for regex, text in _CLASSES:
        pattern = regex.sub(text, pattern)
    alternatives = (_NEXT_OPERATORS.sub("", one) for one in re.sub(r"\((\?:|\?P?<\w+>)?|\)", "", pattern).split("|"))
    return tuple(
        re.sub(r"\[([^\]^])[^\]]*\]", r"\1", one).replace(".", "x").replace("\\x", ".") for one in alternatives
    )
