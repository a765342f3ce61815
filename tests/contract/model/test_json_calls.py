"""Models without native tool calls: the client reads calls from their JSON answers, and reprompts them."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.model.allowlist import LOCAL_KEY
from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import ModelStream
from roboco.ports.model import Reply as ModelReply
from tests.contract.model.json_requests import (
    REQUESTED_ADD,
    TOOLS,
    VALID_ANSWER,
    make_json_request,
    request_bodies,
    script_answers,
)
from tests.contract.model.model_calls import (
    IGNORE_ABANDONED_GENERATORS,
    all_disconnected,
    delta,
    encode_events,
    make_request,
    read_reply,
)
from tests.support.servers.model_server import ModelServer, Reply, Request
from tests.support.stack import until

pytestmark = IGNORE_ABANDONED_GENERATORS


def test_the_json_of_an_answer_is_not_streamed(server: ModelServer, model: OpenAIModel) -> None:
    script_answers(server, VALID_ANSWER, chunks=30)
    *texts, result = model.stream(make_json_request())
    assert texts == ["I add"]
    assert isinstance(result, ModelReply)


def test_the_bundled_model_calls_tools_by_json_in_any_team(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", LOCAL_KEY)
    script_answers(server, VALID_ANSWER)
    _, result = read_reply(model.stream(make_request("go", *TOOLS)))
    assert result.calls == (REQUESTED_ADD,)


def test_the_schema_of_the_answer_is_sent(server: ModelServer, model: OpenAIModel) -> None:
    script_answers(server, VALID_ANSWER)
    read_reply(model.stream(make_json_request()))
    read_reply(model.stream(replace(make_json_request(), tool_choice="required")))
    free, bound = (body["response_format"]["json_schema"] for body in request_bodies(server))
    assert request_bodies(server)[0]["response_format"]["type"] == "json_schema"
    assert (free["strict"], bound["strict"]) == (True, True)
    assert list(free["schema"]["properties"]) == ["text", "calls"]
    assert list(bound["schema"]["properties"]) == ["calls"]
    calls = [one["schema"]["properties"]["calls"] for one in (free, bound)]
    assert [(one["minItems"], one["maxItems"]) for one in calls] == [(0, 8), (1, 1)]
    named = [one["properties"]["tool"]["enum"] for one in calls[0]["items"]["anyOf"]]
    assert named == [["add"], ["note"]]
    assert "maximum" not in json.dumps(free)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30), pieces=st.integers(1, 200))
def test_an_answer_may_be_split_into_chunks_anywhere(
    server: ModelServer, model: OpenAIModel, text: str, pieces: int
) -> None:
    script_answers(server, {"text": text, "calls": [{"tool": "note", "args": {"content": text}}]}, chunks=pieces)
    found, result = read_reply(model.stream(make_json_request()))
    assert found == text
    assert [json.loads(call.arguments) for call in result.calls] == [{"content": text}]


def test_no_native_calls_are_sent(server: ModelServer, model: OpenAIModel) -> None:
    script_answers(server, VALID_ANSWER)
    call = {"id": "tc_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}
    messages = (
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "go"},
        {"role": "user", "content": "[critic] good"},
        {"role": "assistant", "content": "I add", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "tc_1", "content": "3"},
    )
    for tools in (TOOLS, ()):
        read_reply(model.stream(replace(make_json_request(), messages=messages, tools=tools)))
    for body in request_bodies(server):
        assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
        assert {key for message in body["messages"] for key in message} == {"role", "content"}
    with_tools, without = ([message["content"] for message in body["messages"][2:]] for body in request_bodies(server))
    assert json.loads(with_tools[0]) == VALID_ANSWER
    assert with_tools[1] == "[add answered] 3"
    assert without == ["I add", '[add with {"a":1,"b":2} answered] 3']


@pytest.mark.parametrize("status", [400, 422])
def test_a_request_is_repeated_without_a_response_format_if_the_server_refuses_it(
    server: ModelServer, models: Callable[..., OpenAIModel], status: int
) -> None:
    """The client remembers the refusal for this model at this address only."""

    def reply(request: Request) -> Reply:
        if request.model == "m" and "response_format" in request.body:
            return Reply(status=status, text="unknown field 'response_format'")
        return Reply(text=json.dumps(VALID_ANSWER))

    server.script(reply)
    model = models(retry_delay=0.01)
    assert [read_reply(model.stream(make_json_request()))[1].calls for _ in range(2)] == [
        (REQUESTED_ADD,),
        (REQUESTED_ADD,),
    ]
    read_reply(model.stream(make_json_request(model="another")))
    assert ["response_format" in body for body in request_bodies(server)] == [True, False, False, True]


def close_and_read_rest(stream: ModelStream) -> list[Any]:
    """Close the stream twice. Return the items that it yields after that."""
    stream.close()
    stream.close()
    items = list(stream)
    assert stream.wait_closed(30)
    return items


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_json_stream_is_closed_during_an_answer(server: ModelServer, model: OpenAIModel, answered: int) -> None:
    """The client closes the first answer and the answers after a reprompt."""
    hanging = Reply(text='{"text": "on and on', hang_after=3)
    server.script(lambda request: hanging if len(server.requests) > answered else Reply(text="no"))
    stream = model.stream(make_json_request())
    until(
        lambda: len(server.requests) > answered and server.requests[-1].chunks_sent == 3,
        30,
        "the server has sent a part of the answer",
    )
    assert close_and_read_rest(stream) == []
    server.wait_for(lambda records: all_disconnected(records[answered:]), timeout=30)
    assert len(server.requests) == answered + 1


@pytest.mark.parametrize("chunk", [delta("stop", content=5), {"choices": None}, delta("tool_calls", tool_calls=[])])
def test_every_stream_ends_with_a_reply_or_an_error(
    server: ModelServer, models: Callable[..., OpenAIModel], chunk: dict[str, Any]
) -> None:
    server.script(lambda request: Reply(text="{", garbage=encode_events(chunk)))
    items: list[Any] = []
    try:
        items.extend(models(max_attempts=2, retry_delay=0.01).stream(make_json_request()))
    except Exception as error:
        items.append(error)
    assert type(items[-1]).__name__ in ("Reply", "ModelError")
