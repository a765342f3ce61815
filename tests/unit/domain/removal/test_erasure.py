"""The dead letters that concern a task: those of its work, and messages that name it, whatever their texts say."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from roboco.domain.dead_letter import DeadLetter, dead_letter_of_lost_work
from roboco.domain.removal.erasure import concerns

NOW = datetime.now(UTC)


def letter(arguments: object, message_id: str = "m1") -> DeadLetter:
    body = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return DeadLetter(letter_id="dead_1", reason="refused", time=NOW, headers={"id": message_id}, body=body)


def sent(**arguments: Any) -> list[Any]:
    """Return the body of a message with these arguments."""
    return [[], arguments, {}]


@pytest.mark.parametrize(
    ("task_id", "found", "is_named"),
    [
        ("order-17", letter(sent(task_id="order-18", prompt="order-17")), False),
        ("order-17", letter(sent(task_id="order-18", source="order-17")), True),
        ("order-17", letter([["order-17"], {}, {}]), True),
        ("order-17", letter([["order-170"], {}, {}]), False),
        ("order-17", letter(sent(), "order-17/3/a"), True),
        ("task_m1", letter(sent(prompt="x")), True),
        ("acme:task_m1", letter(sent(prompt="x", tenant="acme")), True),
        ("acme:task_m1", letter(sent(prompt="x", tenant="other")), False),
        ("acme:t", letter(sent(task_id="t", tenant="acme")), True),
        ("acme:t", letter(sent(task_id="acme:t")), True),
        ("acme:t", letter(sent(task_id="t", tenant="other")), False),
        ("prompt", letter(sent(task_id="a", prompt="x")), False),
        ("b", letter(sent(task_id="a", prompt='"task_id": "b"')), False),
        ("order-17", letter('[[], {"prompt": "...", "task_id" : "order-17", "context": "trunca'), True),
        ("a.b", letter(sent(task_id="aXb")), False),
        ("t", dead_letter_of_lost_work("turn", "t", "a", "lost", 3, NOW), True),
        ("t", dead_letter_of_lost_work("turn", "u", "t", "t", 3, NOW), False),
    ],
)
def test_a_letter_concerns_the_task_that_its_arguments_name(task_id: str, found: DeadLetter, is_named: bool) -> None:
    assert concerns(found, task_id) is is_named
