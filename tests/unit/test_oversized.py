"""Producers that send far too much: what they send is refused in a moment, in few words."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from roboco.adapters.celery.message_validation import MAX_BODY_BYTES, size_error
from roboco.adapters.team.file import parse_team
from roboco.domain.inbox.submission import parse_submission
from roboco.errors import UsageError

pytestmark = pytest.mark.slow

TEAM: dict[str, Any] = {"name": "e", "agents": [{"name": "e", "prompt": "p"}]}


def submitted(more: dict[str, Any]) -> object:
    return parse_submission({"task_id": "a", "team": TEAM, "prompt": "x"} | more)


def declared(more: dict[str, Any]) -> object:
    return parse_team(TEAM | more)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def coded(count: int) -> list[dict[str, Any]]:
    """Agents whose templates have much code."""
    return [{"name": f"a{n}", "prompt": "{{ task.id }}" * 790} for n in range(count)]


def routed(patterns: list[str]) -> dict[str, Any]:
    """A graph with an edge for each pattern."""
    edges = [{"to": "END", "when": {"matches": pattern}} for pattern in patterns]
    return {"collaboration_model": {"type": "graph", "initial_agent": "e", "routing_graph": {"e": edges}}}


@pytest.mark.parametrize(
    ("send", "make", "told"),
    [
        (submitted, lambda: {"goals": [{"name": "g", "description": "d"}] * 10**6}, "at most 5 items"),
        (submitted, lambda: {f"k{number}": 1 for number in range(10**5)}, "and 99980 mistakes more"),
        (submitted, lambda: {"k" * 10**6: 1}, "no such argument"),
        (submitted, lambda: {"prompt": "x" * 10**8}, "at most 262144 are possible"),
        (submitted, lambda: {"context": {"a": nested(100)}}, "nested deeper than 64 levels"),
        (submitted, lambda: {"context": {"a": nested(10**5)}}, "nested deeper than 64 levels"),
        (submitted, lambda: {"context": {"a": "x" * 10**7}}, "at most 65536 are possible"),
        (submitted, lambda: {"model": {"a": "x" * 10**6}}, "model: Input should be a valid string"),
        (declared, lambda: {"description": "x" * 10**8}, "at most 1048576 are possible"),
        (declared, lambda: {"limits": nested(10**5)}, "nested deeper than 64 levels"),
        (declared, lambda: {"agents": [{"name": f"a{n}", "prompt": "p"} for n in range(10**4)]}, "at most 200"),
        (declared, lambda: {"tools": [{"name": f"t{n}", "function": "a:b"} for n in range(10**4)]}, "at most 500"),
        (declared, lambda: {"agents": coded(100)}, "more than 20000 words and signs of code"),
        (declared, lambda: {"teams": {f"t{n}": {"agents": coded(5)} for n in range(20)}}, "more than 20000 words"),
        (declared, lambda: routed([f"\\w{{49}}{n}" for n in range(5000)]), "the regular expressions weigh"),
        (declared, lambda: routed([f"{n}" for n in range(10**4)]), "the regular expressions weigh"),
        (declared, lambda: routed([f"{n}" for n in range(51)]), "have 51 conditions, at most 50"),
        (declared, lambda: {f"k{number}": 1 for number in range(10**4)}, "and 9900 mistakes more"),
    ],
)
def test_too_much_is_refused_at_once(
    send: Callable[[dict[str, Any]], object], make: Callable[[], dict[str, Any]], told: str
) -> None:
    more = make()
    began = time.thread_time()
    with pytest.raises(UsageError) as refused:
        send(more)
    assert time.thread_time() - began < 20
    assert told in str(refused.value)
    assert len(str(refused.value)) < 20_000


def test_a_message_is_not_read_that_is_larger_than_any_can_be() -> None:
    assert "at most" in (size_error(b"x" * (MAX_BODY_BYTES + 1)) or "")
    assert size_error(json.dumps("ü" * 1024 * 1024).encode()) is None
