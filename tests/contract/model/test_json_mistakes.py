"""JSON answers that cannot be read: the client reprompts the model with the mistake."""

import json
from dataclasses import replace
from typing import Any

import pytest

from roboco.model.openai_model import MAX_REPROMPTS, OpenAIModel
from tests.contract.model.json_requests import (
    ADD_CALL,
    REQUESTED_ADD,
    VALID_ANSWER,
    make_json_request,
    request_bodies,
    script_answers,
)
from tests.contract.model.model_calls import IGNORE_ABANDONED_GENERATORS, read_reply
from tests.support.servers.model_server import ModelServer, Reply

pytestmark = IGNORE_ABANDONED_GENERATORS


MALFORMED: dict[str, tuple[Any, str]] = {
    "no JSON": ("I would add them.", "holds no JSON object"),
    "nothing": ("", "holds no JSON object"),
    "a list": ([ADD_CALL], "holds no JSON object"),
    "a bare call": (ADD_CALL, "holds no JSON object"),
    "broken JSON": ('{"text": "a", "calls": [}', "holds no JSON object"),
    "no number": ('{"text": "a", "calls": [], "x": NaN}', "holds no JSON object"),
    "too deep": ('{"calls": ' + "[" * 100_000, "holds no JSON object"),
    "a number of endless digits": ('{"calls": [' + "1" * 5000 + "]}", "holds no JSON object"),
    "a number for text": ({"text": 5, "calls": []}, "'text' is no string"),
    "an object for calls": ({"text": "", "calls": ADD_CALL}, "'calls' is no list"),
    "a call that is a word": ({"text": "", "calls": ["add"]}, "no object with 'tool' and 'args'"),
    "a call without a name": ({"text": "", "calls": [{"args": {}}]}, "no object with 'tool' and 'args'"),
    "an unknown tool": ({"text": "", "calls": [{"tool": "fly", "args": {}}]}, "no tool 'fly', only add, note"),
    "args in a string": ({"text": "", "calls": [ADD_CALL | {"args": "{}"}]}, "args of add are no object"),
    "args that are missing": ({"text": "", "calls": [ADD_CALL | {"args": {"a": 1}}]}, '"b" is a required property'),
    "args beyond the schema's limits": ({"text": "", "calls": [ADD_CALL | {"args": {"a": 1, "b": 1001}}]}, "1001"),
    "the second call": ({"text": "", "calls": [ADD_CALL, {"tool": "note", "args": {"content": 5}}]}, "args of note"),
    "too many calls": ({"text": "", "calls": [ADD_CALL] * 9}, "9 calls, at most 8"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_the_model_corrects_a_malformed_answer(server: ModelServer, model: OpenAIModel, kind: str) -> None:
    """The reprompt contains the malformed answer and the mistake."""
    content, wrong = MALFORMED[kind]
    script_answers(server, content, VALID_ANSWER, usage=(10, 3))
    text, result = read_reply(model.stream(make_json_request()))
    assert (text, result.calls, result.reprompts) == ("I add", (REQUESTED_ADD,), 1)
    assert (result.tokens_in, result.tokens_out) == (20, 6)
    first, second = (body["messages"] for body in request_bodies(server))
    assert second[: len(first)] == first
    own, correction = second[len(first) :]
    assert own["role"] == "assistant"
    assert own["content"][:50] == ((content if isinstance(content, str) else json.dumps(content)) or "(nothing)")[:50]
    assert len(own["content"]) < 2100
    assert correction["role"] == "user"
    assert wrong in correction["content"]
    assert request_bodies(server)[1]["response_format"] == request_bodies(server)[0]["response_format"]


def test_reprompts_are_bounded(server: ModelServer, model: OpenAIModel) -> None:
    """Each reprompt contains only the answer before it."""
    server.script(lambda request: Reply(text=f"no {len(server.requests)}", usage=(7, 2)))
    text, result = read_reply(model.stream(make_json_request()))
    assert (text, result.finish_reason, result.calls) == (f"no {1 + MAX_REPROMPTS}", "stop", ())
    assert (result.reprompts, result.tokens_in, result.tokens_out) == (MAX_REPROMPTS, 7 * 3, 2 * 3)
    assert result.first_token_ms <= result.duration_ms
    assert [len(body["messages"]) for body in request_bodies(server)] == [2, 4, 4]
    assert request_bodies(server)[2]["messages"][2]["content"] == "no 2"


CALL = '{"text": "", "calls": [{"tool": "add", "args": {"a": 1'
UNCORRECTED: dict[str, tuple[str, str]] = {
    "JSON in a fence": (f"```json\n{CALL}}}}}\n```", ""),
    "truncated JSON": (CALL, ""),
    "prose, then JSON": (f"I would add them.\n{CALL}}}}}]}}", "I would add them."),
    "prose, then a fence": (f"I would add them:\n```json\n{CALL}", "I would add them:"),
    "two objects": (f"{CALL}}}}}]}}\n{CALL}}}}}]}}", ""),
    "a call as a list": ('[{"name": "add", "arguments": {}}]', ""),
    "words beside a bad call": ('{"text": "I add", "calls": [{"tool": "fly", "args": {}}]}', "I add"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("kind", UNCORRECTED)
def test_a_call_that_stays_malformed_is_never_shown_as_text(server: ModelServer, model: OpenAIModel, kind: str) -> None:
    content, words = UNCORRECTED[kind]
    script_answers(server, content)
    text, result = read_reply(model.stream(make_json_request()))
    assert (text, result.finish_reason, result.calls) == (words, "malformed", ())
    assert result.mistake
    assert len(server.requests) == 1 + MAX_REPROMPTS


@pytest.mark.parametrize(
    "content",
    [
        "See [the page](https://example.org) and footnote [1].",
        "Use `a[0]`:\n```python\nprint(a[0])\n```\nThat is all.",
        "The range [0, 1) is half open.",
    ],
)
def test_prose_with_brackets_is_text(server: ModelServer, model: OpenAIModel, content: str) -> None:
    script_answers(server, content)
    text, result = read_reply(model.stream(make_json_request()))
    assert (text, result.finish_reason, result.mistake) == (content, "stop", "")


def make_request_after_call() -> Any:
    """Return the request of an agent that has called a tool and has no tools in this turn."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    past = (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    )
    request = make_json_request()
    return replace(request, messages=(*request.messages, *past), tools=())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("It is 3.", "It is 3."),
        (f"It is 3. {CALL}", "It is 3. "),
        (f"```json\n{CALL}}}}}]}}\n```\nIt is 3.", "It is 3."),
        ("Sets look so: {1, 2}.", "Sets look so: {1, 2}."),
    ],
)
def test_an_agent_without_tools_replies_with_its_prose_only(
    server: ModelServer, model: OpenAIModel, content: str, words: str
) -> None:
    script_answers(server, content.replace('"text": "", ', ""))
    text, result = read_reply(model.stream(make_request_after_call()))
    assert (text, result.finish_reason, result.reprompts) == (words, "stop", 0)
