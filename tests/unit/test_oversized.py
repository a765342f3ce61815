"""Producers that send far too much: what they send is refused in a moment, in few words."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from roboco.adapters.celery.consumer import BODY_MOST, _size_flaw
from roboco.adapters.team_file import team_from
from roboco.domain.submission import read_submission
from roboco.errors import UsageError

TEAM: dict[str, Any] = {"name": "e", "agents": [{"name": "e", "prompt": "p"}]}


def submitted(**more: Any) -> Callable[[], object]:
    return lambda: read_submission({"task_id": "a", "team": TEAM, "prompt": "x"} | more)


def declared(**more: Any) -> Callable[[], object]:
    return lambda: team_from(TEAM | more)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("send", "told"),
    [
        (submitted(goals=[{"name": "g", "description": "d"}] * 10**6), "at most 5 items"),
        (submitted(**{f"k{number}": 1 for number in range(10**5)}), "and 99980 mistakes more"),
        (submitted(**{"k" * 10**6: 1}), "no such argument"),
        (submitted(prompt="x" * 10**8), "at most 262144 are possible"),
        (submitted(context={"a": nested(100)}), "nested deeper than 64 levels"),
        (submitted(context={"a": nested(10**5)}), "nested deeper than 64 levels"),
        (submitted(context={"a": "x" * 10**7}), "at most 65536 are possible"),
        (submitted(model={"a": "x" * 10**6}), "model: Input should be a valid string"),
        (declared(description="x" * 10**8), "at most 1048576 are possible"),
        (declared(limits=nested(10**5)), "nested deeper than 64 levels"),
        (declared(agents=[{"name": f"a{number}", "prompt": "p"} for number in range(10**4)]), "at most 200"),
        (declared(tools=[{"name": f"t{number}", "function": "a:b"} for number in range(10**4)]), "at most 500"),
        (declared(**{f"k{number}": 1 for number in range(10**4)}), "and 9900 mistakes more"),
    ],
)
def test_too_much_is_refused_at_once(send: Callable[[], object], told: str) -> None:
    began = time.thread_time()
    with pytest.raises(UsageError) as refused:
        send()
    assert time.thread_time() - began < 20
    assert told in str(refused.value)
    assert len(str(refused.value)) < 20_000


def test_a_message_is_not_read_that_is_larger_than_any_can_be() -> None:
    assert "at most" in (_size_flaw(b"x" * (BODY_MOST + 1)) or "")
    assert _size_flaw(json.dumps("ü" * 1024 * 1024).encode()) is None
