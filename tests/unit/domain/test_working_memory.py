"""Working memory: what goes to the model is always valid, and holds what it must."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.step import TaskStep
from roboco.domain.prompt.chat import is_empty
from roboco.domain.prompt.working_memory import PromptInputs, WorkingMemory, build_working_memory
from roboco.domain.team.team import Agent
from roboco.domain.tokens import estimate_tokens
from tests.unit.domain.steps import Line, artifact, call, failed, histories, result, steps_of, text

CONTEXTS = st.sampled_from(
    [
        *({"steps": steps} for steps in (1, 2, 3, 20)),
        *({"strategy": "budget", "tokens": tokens} for tokens in (100, 150, 400, 8000)),
    ]
)


def agent(name: str = "one", **context: Any) -> Agent:
    return Agent.model_validate({"name": name, "prompt": "hi", "context": context})


def memory(steps: list[TaskStep], tail: int = 64, who: Agent | None = None) -> WorkingMemory:
    return build_working_memory(who or agent(), "PROMPT", PromptInputs(steps[0], tuple(steps[-tail:])))


def left_out(receipt: dict[str, Any]) -> int:
    """How many steps did not go in."""
    return sum(last - first + 1 for first, last in (one["steps"] for one in receipt["left_out"]))


def sent(*lines: Line, who: Agent | None = None) -> list[dict[str, Any]]:
    return list(memory(steps_of(*lines), who=who).messages)


@given(histories(), CONTEXTS, st.integers(1, 30), st.sampled_from(["one", "two"]))
def test_every_call_has_exactly_one_result_right_after_it(
    steps: list[TaskStep], context: dict[str, Any], tail: int, name: str
) -> None:
    """As the chat completions protocol demands, whatever the history and however much of it was kept at hand."""
    compiled = memory(steps, tail, agent(name, **context))
    messages = list(compiled.messages)
    assert [message["role"] for message in messages[:2]] == ["system", "user"]
    assert messages[1]["content"] == steps[0].text
    assert messages[-1]["role"] in ("user", "tool")
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert open_calls, "a result without its call"
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls, "a call without its result"
            open_calls = [one["id"] for one in message.get("tool_calls", [])]
        assert isinstance(message["content"], str)
    assert not open_calls


@given(histories(), CONTEXTS, st.integers(1, 30))
def test_the_newest_steps_are_in_and_the_receipt_says_which(
    steps: list[TaskStep], context: dict[str, Any], tail: int
) -> None:
    who = agent("one", **context)
    receipt = memory(steps, tail, who).report
    included = [seq for first, last in receipt["included"] for seq in range(first, last + 1)]
    assert included == sorted(set(included))
    said = [step.seq for step in steps if not is_empty(step)]
    assert included[0] == 0
    assert left_out(receipt) == len(steps) - len(included)
    assert receipt["strategy"] == who.context.strategy
    newest = included[1:]
    assert newest == ([seq for seq in said if seq > 0][-len(newest) :] if newest else [])
    assert newest or not [step for step in steps[-tail:] if step.seq in said[1:]] or tail == 1


@given(histories(), st.integers(1, 6))
def test_recent_takes_as_many_steps_as_it_may_and_groups_stay_whole(steps: list[TaskStep], limit: int) -> None:
    receipt = memory(steps, 1000, agent("one", steps=limit)).report
    newest = len(steps) - left_out(receipt) - 1
    groups = [group for group in _groups(steps[1:]) if not is_empty(group[0])]
    expected = 0
    for group in reversed(groups):
        if expected and expected + len(group) > limit:
            break
        expected += len(group)
    assert newest == expected


def _groups(steps: list[TaskStep]) -> list[list[TaskStep]]:
    groups: list[list[TaskStep]] = []
    for step in steps:
        if step.agent_name == "tool_executor":
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


@given(histories(), st.integers(100, 1500))
def test_a_budget_is_kept_but_for_the_newest_step(steps: list[TaskStep], tokens: int) -> None:
    budget = agent("one", strategy="budget", tokens=tokens)
    receipt = memory(steps, 1000, budget).report
    more = memory(steps, 1000, agent("one", strategy="budget", tokens=tokens + 500)).report
    assert left_out(more) <= left_out(receipt)
    newest = _groups(steps[1:])[-1:]
    if len(steps) - left_out(receipt) - 1 > sum(map(len, newest)):
        assert receipt["tokens"]["total"] <= tokens * 2


def test_a_budget_takes_what_fits() -> None:
    lines: list[Line] = [("user", "go"), *[("two", "x" * 400)] * 20]
    kept = [
        len(lines) - left_out(memory(steps_of(*lines), 64, agent(strategy="budget", tokens=tokens)).report) - 1
        for tokens in (100, 500, 1000, 8000)
    ]
    assert kept[0] == 1
    assert kept == sorted(kept)
    assert kept[-1] == 20
    assert 3 <= kept[1] <= 5


def test_recent_keeps_the_first_message_and_the_newest() -> None:
    lines: list[Line] = [("user", "the task"), *[("two", f"text {n}") for n in range(10)]]
    contents = [message["content"] for message in sent(*lines, who=agent(steps=2))]
    assert contents == ["PROMPT", "the task", "[two] text 8", "[two] text 9"]


def test_the_first_message_is_in_although_the_tail_does_not_hold_it() -> None:
    steps = steps_of(("user", "the task"), *[("two", f"text {n}") for n in range(10)])
    contents = [message["content"] for message in memory(steps, 1).messages]
    assert contents == ["PROMPT", "the task", "[two] text 9"]


def test_own_steps_are_the_assistants_and_others_are_told() -> None:
    assert sent(("user", "go"), ("one", "mine"), ("two", "theirs"), ("user", "more")) == [
        {"role": "system", "content": "PROMPT"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "mine"},
        {"role": "user", "content": "[two] theirs"},
        {"role": "user", "content": "more"},
    ]


def test_own_calls_and_results_are_sent_as_the_protocol_has_them() -> None:
    lines: list[Line] = [
        ("user", "go"),
        ("one", [text("look"), call("1", "add", {"b": 2, "a": "ü"}), call("2", "add"), call("3", "add")]),
        ("tool_executor", [result("1", {"b": 1, "a": 2}), result("2", "text"), result("3", error="no"), artifact("f")]),
    ]
    assert sent(*lines)[2:] == [
        {
            "role": "assistant",
            "content": "look",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":"ü","b":2}'}},
                {"id": "2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
                {"id": "3", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": '{"a":2,"b":1}'},
        {"role": "tool", "tool_call_id": "2", "content": "text"},
        {"role": "tool", "tool_call_id": "3", "content": "error: no\n(stored as file://artifacts/f)"},
    ]


def test_calls_of_others_are_told_as_text() -> None:
    lines: list[Line] = [
        ("user", "go"),
        ("two", [text("look"), call("1", "add", {"a": 1})]),
        ("tool_executor", [result("1", 3)]),
    ]
    assert sent(*lines)[2:] == [
        {"role": "user", "content": '[two] look\n(calls add with {"a":1})'},
        {"role": "user", "content": "[add answered] 3"},
    ]


def test_a_turn_after_ones_own_text_is_asked_to_go_on() -> None:
    assert sent(("user", "go"), ("one", "mine"))[-1] == {"role": "user", "content": "Go on."}


def test_errors_and_files_are_told() -> None:
    lines: list[Line] = [("user", [text("see"), artifact("f.md")]), ("two", [text("half"), failed("x", "broke")])]
    contents = [message["content"] for message in sent(*lines)]
    assert contents[1:] == ["see\n(file: file://artifacts/f.md, text/plain)", "[two] half\n(error: broke)"]


@pytest.mark.parametrize(("words", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("世", 1), ("世界", 2)])
def test_tokens_are_estimated_by_bytes(words: str, tokens: int) -> None:
    assert estimate_tokens(words) == tokens
