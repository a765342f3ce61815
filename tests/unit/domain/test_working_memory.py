"""Working memory: the messages for the model follow the protocol, and hold the required steps."""

import json
from itertools import pairwise, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.step import TaskStep
from roboco.domain.prompt.chat import is_empty
from roboco.domain.prompt.working_memory import PromptInputs, WorkingMemory, build_working_memory
from roboco.domain.team.team import Agent
from tests.unit.domain.steps import Line, artifact, call, failed, histories, result, steps_of, text

CONTEXTS = st.sampled_from(
    [
        *({"steps": steps} for steps in (1, 2, 3, 20)),
        *({"strategy": "budget", "tokens": tokens} for tokens in (100, 150, 400, 8000)),
    ]
)


def agent(name: str = "one", **context: Any) -> Agent:
    return Agent.model_validate({"name": name, "prompt": "hi", "context": context})


def memory(steps: list[TaskStep], tail: int = 64, for_agent: Agent | None = None) -> WorkingMemory:
    return build_working_memory(for_agent or agent(), "PROMPT", PromptInputs(steps[0], tuple(steps[-tail:])))


def count_left_out(report: dict[str, Any]) -> int:
    """Return the number of steps that were left out."""
    return sum(last - first + 1 for first, last in (one["steps"] for one in report["left_out"]))


def messages_of(*lines: Line, for_agent: Agent | None = None) -> list[dict[str, Any]]:
    return list(memory(steps_of(*lines), for_agent=for_agent).messages)


@given(histories(), CONTEXTS, st.integers(1, 30), st.sampled_from(["one", "two"]))
def test_every_call_has_exactly_one_result_right_after_it(
    steps: list[TaskStep], context: dict[str, Any], tail: int, name: str
) -> None:
    """The chat completions protocol requires this, for every history and every length of its tail."""
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
def test_the_newest_steps_are_included_and_the_report_lists_them(
    steps: list[TaskStep], context: dict[str, Any], tail: int
) -> None:
    for_agent = agent("one", **context)
    report = memory(steps, tail, for_agent).report
    included = [seq for first, last in report["included"] for seq in range(first, last + 1)]
    assert included == sorted(set(included))
    not_empty = [step.seq for step in steps if not is_empty(step)]
    assert included[0] == 0
    assert count_left_out(report) == len(steps) - len(included)
    assert report["strategy"] == for_agent.context.strategy
    newest = included[1:]
    assert newest == ([seq for seq in not_empty if seq > 0][-len(newest) :] if newest else [])
    assert newest or not [step for step in steps[-tail:] if step.seq in not_empty[1:]] or tail == 1


def shares_of_prefixes(context: dict[str, Any], steps_a_turn: int) -> list[float]:
    """Return for a hundred turns the share of a prompt that is a prefix of the next one, in characters."""
    of_agent = agent("one", **context)
    lines: list[Line] = [("user", "the task")]
    prompts = []
    for turn in range(100):
        prompts.append([json.dumps(message) for message in memory(steps_of(*lines), 200, of_agent).messages])
        lines.append(("one", f"answer {turn} " + "words " * 50))
        lines += [("user", f"question {turn} " + "words " * 50)] * (steps_a_turn - 1)
    return [_shared(before, after) / len("".join(before)) for before, after in pairwise(prompts)]


def _shared(before: list[str], after: list[str]) -> int:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return sum(len(message) for message, _ in same)


@pytest.mark.parametrize(("context", "steps_a_turn"), [({}, 2), ({"strategy": "budget", "tokens": 8000}, 1)], ids=str)
def test_most_of_a_prompt_is_a_prefix_of_the_next_one(context: dict[str, Any], steps_a_turn: int) -> None:
    """Caches of providers hit only the beginning of a prompt that is the same as before."""
    shares = shares_of_prefixes(context, steps_a_turn)
    assert sum(shares) / len(shares) >= 0.9, sorted(shares)[:20]


@pytest.mark.parametrize(
    "context", [{}, {"strategy": "budget", "tokens": 100_000}, {"strategy": "summary", "steps": 20}], ids=str
)
def test_no_strategy_sends_more_than_the_context_of_the_model(context: dict[str, Any]) -> None:
    steps = steps_of(("user", "go"), *[("two", "x" * 4000)] * 30)
    whole = build_working_memory(agent("one", **context), "PROMPT", PromptInputs(steps[0], tuple(steps)))
    bounded = build_working_memory(
        agent("one", **context), "PROMPT", PromptInputs(steps[0], tuple(steps), max_tokens=5000)
    )
    assert whole.tokens > 20_000
    assert 2000 < bounded.tokens <= 5000
    assert bounded.report["left_out"][0]["why"] == "does not fit into 5000 tokens"


def test_a_budget_includes_the_steps_that_fit() -> None:
    lines: list[Line] = [("user", "go"), *[("two", "x" * 400)] * 20]
    kept = [
        len(lines) - count_left_out(memory(steps_of(*lines), 64, agent(strategy="budget", tokens=tokens)).report) - 1
        for tokens in (100, 500, 1000, 8000)
    ]
    assert kept[0] == 1
    assert kept == sorted(kept)
    assert kept[-1] == 20
    assert 3 <= kept[1] <= 5


def test_own_calls_and_results_have_the_form_of_the_protocol() -> None:
    lines: list[Line] = [
        ("user", "go"),
        ("one", [text("look"), call("1", "add", {"b": 2, "a": "ü"}), call("2", "add"), call("3", "add")]),
        ("tool_executor", [result("1", {"b": 1, "a": 2}), result("2", "text"), result("3", error="no"), artifact("f")]),
    ]
    assert messages_of(*lines)[2:] == [
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


def test_files_are_text_and_the_error_before_a_retry_is_left_out() -> None:
    lines: list[Line] = [
        ("user", [text("see"), artifact("f.md")]),
        ("two", [text("half"), failed("x", "broke")]),
        ("orchestrator", "retried", {"retry": {}}),
    ]
    contents = [message["content"] for message in messages_of(*lines)]
    assert contents[1:] == ["see\n(file: file://artifacts/f.md, text/plain)"]
