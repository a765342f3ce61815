"""Oversized submissions and teams are refused with a short error."""

from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.inbox.submission import parse_submission
from roboco.errors import UsageError
from roboco.team_files.file import parse_team

pytestmark = pytest.mark.slow

TEAM: dict[str, Any] = {"name": "e", "agents": [{"name": "e", "prompt": "p"}]}


def submit(more: dict[str, Any]) -> object:
    return parse_submission({"task_id": "a", "team": TEAM, "prompt": "x"} | more)


def declare_team(more: dict[str, Any]) -> object:
    return parse_team(TEAM | more)


def nested_list(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def graph_with_patterns(patterns: list[str]) -> dict[str, Any]:
    """Return a graph with an edge for each pattern."""
    edges = [{"to": "END", "when": {"matches": pattern}} for pattern in patterns]
    return {"collaboration_model": {"type": "graph", "initial_agent": "e", "routing_graph": {"e": edges}}}


@pytest.mark.parametrize(
    ("send", "make", "message"),
    [
        (submit, lambda: {"goals": [{"name": "g", "description": "d"}] * 10**5}, "at most 5 items"),
        (submit, lambda: {f"k{number}": 1 for number in range(10**4)}, "and 9980 mistakes more"),
        (submit, lambda: {"prompt": "x" * 10**8}, "at most 262144 are possible"),
        (submit, lambda: {"context": {"a": nested_list(10**5)}}, "nested deeper than 64 levels"),
        (submit, lambda: {"model": {"a": "x" * 10**6}}, "model: Input should be a valid string"),
        (declare_team, lambda: {"description": "x" * 10**8}, "at most 1048576 are possible"),
        (declare_team, lambda: {"limits": nested_list(10**5)}, "nested deeper than 64 levels"),
        (declare_team, lambda: {"agents": [{"name": f"a{n}", "prompt": "p"} for n in range(10**4)]}, "at most 200"),
        (
            declare_team,
            lambda: graph_with_patterns([f"\\w{{49}}{n}" for n in range(5000)]),
            "the regular expressions weigh",
        ),
        (declare_team, lambda: graph_with_patterns([f"{n}" for n in range(51)]), "have 51 conditions, at most 50"),
    ],
)
def test_oversized_input_is_refused(
    send: Callable[[dict[str, Any]], object], make: Callable[[], dict[str, Any]], message: str
) -> None:
    more = make()
    with pytest.raises(UsageError) as refused:
        send(more)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 20_000
