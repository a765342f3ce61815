"""Text of a model server: the reply can be stored as UTF-8, and its token counts are plausible."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from roboco.model.openai_model import OpenAIModel
from roboco.model.reply_assembly import MAX_TOKEN_COUNT
from roboco.ports.model import RequestedCall
from tests.contract.model.model_calls import (
    IGNORE_ABANDONED_GENERATORS,
    TOOL,
    delta,
    encode_events,
    make_request,
    read_failure,
    read_reply,
)
from tests.support.servers.model_server import ModelServer, Reply

ESTIMATED_PROMPT = 19
"""Tokens of the messages of `make_request`, as an estimate."""
pytestmark = IGNORE_ABANDONED_GENERATORS

HIGH, LOW = "\ud83d", "\ude00"
"""The surrogates of a character that a server splits."""


def _script_chunks(server: ModelServer, *chunks: Any) -> None:
    server.script(lambda request: Reply(garbage=encode_events(*chunks)))


def _call(arguments: str, name: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "id": f"c{HIGH}", "function": {"name": name, "arguments": arguments}}


def test_lone_surrogates_of_an_answer_are_replaced(server: ModelServer, model: OpenAIModel) -> None:
    call = _call(f'{{"a": "{LOW}"}}', f"add{HIGH}")
    _script_chunks(
        server,
        {"model": f"m{LOW}", "choices": [{"delta": {"content": f"a{LOW}b{HIGH}"}}]},
        delta(content="c", tool_calls=[call]) | {"model": f"m{HIGH}"},
        delta(f"tool{HIGH}") | {"model": None},
        {"usage": {f"prompt{HIGH}": 1, "prompt_tokens": 3}, "choices": []},
    )
    text, result = read_reply(model.stream(make_request("hello", TOOL)))
    assert text == "a\ufffdb\ufffdc"
    assert (result.model, result.finish_reason, result.tokens_in) == ("m\ufffd", "tool\ufffd", 3)
    assert result.calls == (RequestedCall("add\ufffd", '{"a": "\ufffd"}'),)
    assert json.dumps(asdict(result), ensure_ascii=False).encode()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "between", [[], [delta()], [delta(content="")], [delta(content=None), {"choices": []}]], ids=str
)
def test_a_character_whose_halves_are_in_two_chunks_is_joined(
    server: ModelServer, model: OpenAIModel, between: list[Any]
) -> None:
    calls = [delta(tool_calls=[_call(half, half)]) for half in (HIGH, LOW)]
    halves = [delta(content=f"a{HIGH}"), *between, delta(content=f"{LOW}b")]
    _script_chunks(server, *halves, calls[0], *between, calls[1], delta("tool_calls"))
    text, result = read_reply(model.stream(make_request("hello", TOOL)))
    assert text == "a\U0001f600b"
    assert result.calls == (RequestedCall("\U0001f600", "\U0001f600"),)


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_an_error_message_is_well_formed(server: ModelServer, model: OpenAIModel, status: int) -> None:
    if status == 200:
        _script_chunks(server, {"error": {"message": f"no {HIGH}", "code": LOW, "type": HIGH}})
    else:
        server.script(lambda request: Reply(status=status, text=f"no {HIGH}"))
    _, error = read_failure(model.stream(make_request()))
    assert error.message.encode()
    assert "no \ufffd" in error.message


@pytest.mark.parametrize(
    ("count", "counted"),
    [(7, 7), (-5, 0), (True, 0), (False, 0), (None, 0), ("9", 9), (3.5, 3), ([1], 0), (10**30, MAX_TOKEN_COUNT)],
    ids=str,
)
def test_a_token_count_is_limited_to_plausible_numbers(
    server: ModelServer, model: OpenAIModel, count: Any, counted: int
) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    _script_chunks(server, delta(content="a"), delta("stop"), {"usage": usage, "choices": []})
    _, result = read_reply(model.stream(make_request()))
    assert result.tokens_in == (counted or ESTIMATED_PROMPT), "the client estimates instead"
    assert result.usage.estimated == (counted == 0)
    assert type(result.tokens_in) is int
    assert result.tokens_out == (counted or 1), "the client counts chunks instead"
    assert len(server.requests) == 1
