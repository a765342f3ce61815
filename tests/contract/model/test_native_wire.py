"""Models by the protocol of their provider, through the packages of the providers, against recorded exchanges."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.model.errors import ServerFailure
from roboco.model.learned import Learner
from roboco.model.native import provider as provider_module
from roboco.model.native.wire import NativeWire
from roboco.model.openai_model import OpenAIModel
from roboco.model.reply_assembly import ReplyAssembly
from roboco.model.wire import Output
from roboco.ports.model import Reply, Request
from tests.contract.model.model_calls import close_model
from tests.contract.model.native_expected import expected_of
from tests.contract.model.native_server import (
    PROVIDERS,
    RECORDINGS,
    Answer,
    NativeServer,
    amazon_events,
    answer_of,
    events,
    native_server,
    read_recording,
    recordings,
)

pytest.importorskip("pydantic_ai")
pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")
needs_recordings = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="needs the recorded exchanges")

KEY = "sk-native-0123456789"
TIMEOUT = 60
DISCONNECT_TIMEOUT = 20
SMALLEST = {
    "anthropic": "api.anthropic.com--test_anthropic_native_tool_search_streaming--0.json",
    "google": "generativelanguage.googleapis.com--test_google_streaming_tool_call_thought_signature--0.json",
    "bedrock": "bedrock-runtime.us-east-1.amazonaws.com--test_bedrock_model_iter_stream--0.json",
    "responses": "api.openai.com--test_openai_responses_stream--0.json",
}
"""A short recording with a call, for each folder."""
PROMPT: tuple[ChatMessage, ...] = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go on."})


@dataclass
class Heard:
    """What a wire has said."""

    reply: Reply
    assembly: ReplyAssembly
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass
class Caller:
    """Calls a wire in its loop."""

    run: Callable[..., Any]
    wire: NativeWire
    server: NativeServer

    def profile(self, provider: str, **fields: Any) -> ModelProfile:
        """Return a profile of the server."""
        key = {} if provider == "bedrock" else {"api_key_env": "NATIVE_KEY"}
        address = {"base_url": self.server.url + ("/v1" if provider == "openai-responses" else "")}
        return ModelProfile(**({"model": "m", "provider": provider, "max_tokens": 2048} | key | address | fields))

    def call(self, request: Request) -> Heard:
        """Make the request, and return what was heard."""
        heard: Heard = self.run(asyncio.wait_for(self.exchange(request), TIMEOUT))
        return heard

    async def exchange(self, request: Request) -> Heard:
        """Make the request, and return what was heard."""
        assembly = ReplyAssembly(request.profile.model, request.max_tokens)
        heard = Heard(assembly.reply(), assembly)
        await self.wire.exchange(request, assembly, Output(heard.texts.append, heard.thoughts.append, lambda: None))
        return replace(heard, reply=assembly.reply())


@pytest.fixture(scope="module")
def runner() -> Iterator[tuple[Callable[..., Any], NativeWire]]:
    """Yield a loop and its wire: the packages are imported once."""
    with asyncio.Runner() as runner:
        wire = NativeWire(Learner())
        yield runner.run, wire
        runner.run(wire.close())


@pytest.fixture
def caller(runner: tuple[Callable[..., Any], NativeWire], monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """Yield a caller with a server."""
    for name, value in {"NATIVE_KEY": KEY, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)
    with native_server() as server:
        yield Caller(*runner, server)


def tool(name: str) -> dict[str, Any]:
    """Return a tool."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": "finds", "parameters": schema}}


def recorded(caller: Caller, path: Path, **fields: Any) -> tuple[dict[str, Any], Request]:
    """Return a recording and a request to its model."""
    recording = read_recording(path)
    provider = PROVIDERS[path.parent.name.removesuffix("-error")]
    return recording, Request(caller.profile(provider, **({"model": recording["model"]} | fields)), PROMPT, ())


def without_spaces(text: str) -> str:
    """Return the text without white space: the library puts some between two parts."""
    return "".join(text.split())


def assert_as_recorded(heard: Heard, path: Path, raw: bytes) -> None:
    """Assert that the reply has the content of the recording."""
    expected, usage = expected_of(path, raw), heard.assembly.usage
    assert heard.text == expected.text
    assert without_spaces("".join(heard.thoughts)) == without_spaces(expected.reasoning)
    assert [(call.name, json.loads(call.arguments or "{}")) for call in heard.reply.calls] == expected.calls
    assert heard.reply.finish_reason == expected.finish
    assert heard.assembly.is_whole
    assert usage is not None
    counts = (usage.tokens_in, usage.tokens_out, usage.cached_in)
    assert counts == (expected.tokens_in, expected.tokens_out, expected.cached_in)
    state = json.dumps(heard.reply.provider)
    assert [value for value in expected.opaque if json.dumps(value)[1:-1] not in state] == []


@needs_recordings
@pytest.mark.parametrize("path", recordings(*PROVIDERS), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_stream_is_read_as_it_was_sent(caller: Caller, path: Path) -> None:
    recording, request = recorded(caller, path)
    caller.server.answers = [answer_of(recording)]
    assert_as_recorded(caller.call(request), path, recording["raw"])


@needs_recordings
@pytest.mark.parametrize("path", [RECORDINGS / folder / name for folder, name in SMALLEST.items()], ids=list(SMALLEST))
def test_stream_that_arrives_byte_by_byte_is_read_as_it_was_sent(caller: Caller, path: Path) -> None:
    recording, request = recorded(caller, path)
    caller.server.answers = [answer_of(recording, piece_size=1)]
    assert_as_recorded(caller.call(request), path, recording["raw"])


@needs_recordings
@pytest.mark.parametrize(
    "path", recordings(*(f"{folder}-error" for folder in PROVIDERS)), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_refusal_has_the_status_and_the_words_of_the_server(caller: Caller, path: Path) -> None:
    recording, request = recorded(caller, path)
    caller.server.answers = [answer_of(recording)]
    with pytest.raises(ServerFailure) as refused:
        caller.call(request)
    body = json.loads(recording["raw"])
    assert refused.value.status == recording["status"]
    assert refused.value.text == body.get("error", body)["message"]
    assert len(caller.server.received) == 1


@needs_recordings
@pytest.mark.parametrize("path", [RECORDINGS / folder / name for folder, name in SMALLEST.items()], ids=list(SMALLEST))
def test_next_request_returns_what_the_provider_wants_back(caller: Caller, path: Path) -> None:
    recording, request = recorded(caller, path)
    caller.server.answers = [answer_of(recording)]
    first = caller.call(request)
    again = replace(request, messages=answered(request, first, "42"))
    caller.call(again)
    sent = json.dumps(caller.server.received[-1].body)
    if path.parent.name == "google":  # its package sends the other alphabet of base64
        sent = sent.replace("-", "+").replace("_", "/")
    expected = expected_of(path, recording["raw"])
    assert [value for value in expected.opaque if json.dumps(value)[1:-1] not in sent] == []
    body = json.dumps(caller.server.received[-1].body)
    for state in first.reply.provider["calls"]:
        assert body.count(state["id"]) == 2, "the call and its result have the provider's own id"
    assert "tc_0" not in body


def answered(request: Request, heard: Heard, result: str, **changes: Any) -> tuple[ChatMessage, ...]:
    """Return the messages of the request, with the reply and the results of its calls."""
    calls = [
        {"id": f"tc_{index}", "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
        for index, call in enumerate(heard.reply.calls)
    ]
    state = json.loads(json.dumps({"server": "s", "model": "m"} | heard.reply.provider))
    reply = {"role": "assistant", "content": heard.text, "tool_calls": calls, "provider": state} | changes
    results = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls]
    return (*request.messages, reply, *(results or [{"role": "user", "content": "And then?"}]))


@needs_recordings
def test_signatures_of_thinking_return_unless_the_text_was_changed(caller: Caller) -> None:
    path = RECORDINGS / "anthropic" / "api.anthropic.com--test_anthropic_model_thinking_part_stream--0.json"
    recording, request = recorded(caller, path)
    caller.server.answers = [answer_of(recording)]
    first = caller.call(request)
    [signature] = expected_of(path, recording["raw"]).opaque
    caller.call(replace(request, messages=answered(request, first, "")))
    caller.call(replace(request, messages=answered(request, first, "", content="Something else.")))
    kept, changed = (json.dumps(one.body["messages"]) for one in caller.server.received[1:])
    assert signature in kept
    assert signature not in changed
    assert "Something else." in changed


@needs_recordings
@pytest.mark.parametrize("path", [RECORDINGS / folder / name for folder, name in SMALLEST.items()], ids=list(SMALLEST))
def test_cancellation_closes_the_connection(caller: Caller, path: Path) -> None:
    recording, request = recorded(caller, path)
    half = replace(answer_of(recording, hold=True), pieces=[recording["raw"][: len(recording["raw"]) // 2]])
    caller.server.answers = [half]

    async def cancel_when_sent() -> None:
        task = asyncio.create_task(caller.exchange(request))
        await asyncio.to_thread(caller.server.sent.wait, DISCONNECT_TIMEOUT)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, DISCONNECT_TIMEOUT)
        assert await asyncio.to_thread(caller.server.disconnected.wait, DISCONNECT_TIMEOUT)

    caller.run(cancel_when_sent())


@needs_recordings
@pytest.mark.parametrize("path", [RECORDINGS / folder / name for folder, name in SMALLEST.items()], ids=list(SMALLEST))
def test_limit_of_the_reply_closes_the_connection(caller: Caller, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roboco.model.reply_assembly.MAX_REPLY_CHUNKS", 0)
    recording, request = recorded(caller, path)
    caller.server.answers = [answer_of(recording, hold=True)]

    async def call() -> None:
        assert (await caller.exchange(request)).assembly.exceeded_limit == "0 chunks"
        assert await asyncio.to_thread(caller.server.disconnected.wait, DISCONNECT_TIMEOUT)

    caller.run(asyncio.wait_for(call(), TIMEOUT))


@pytest.mark.parametrize("provider", PROVIDERS.values())
def test_server_error_is_raised_after_one_request(caller: Caller, provider: str) -> None:
    caller.server.answers = [Answer(503, [b'{"error":{"message":"overloaded"}}'], "application/json")]
    with pytest.raises(ServerFailure) as failed:
        caller.call(Request(caller.profile(provider), PROMPT, ()))
    assert failed.value.status == 503
    assert len(caller.server.received) == 1


def message_start(**usage: int) -> dict[str, Any]:
    """Return the first event of Anthropic."""
    usage = {"input_tokens": 10, "output_tokens": 1} | usage
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-x"}
    return {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}}


def message_end(reason: str, **delta: Any) -> tuple[dict[str, Any], ...]:
    """Return the last events of Anthropic."""
    delta = {"stop_reason": reason, "stop_sequence": None} | delta
    return ({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}, {"type": "message_stop"})


def text_block(text: str) -> tuple[dict[str, Any], ...]:
    """Return the events of a text of Anthropic."""
    return (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
    )


def test_cached_tokens_of_anthropic_count_as_input(caller: Caller) -> None:
    start = message_start(cache_read_input_tokens=100, cache_creation_input_tokens=20)
    caller.server.answers = [events(start, *text_block("Four."), *message_end("end_turn"))]
    usage = caller.call(Request(caller.profile("anthropic"), PROMPT, ())).assembly.usage
    assert usage is not None
    assert (usage.tokens_in, usage.cached_in, usage.cache_write, usage.tokens_out) == (130, 100, 20, 7)


def test_paused_reply_is_continued(caller: Caller) -> None:
    caller.server.answers = [
        events(message_start(), *text_block("Searching."), *message_end("pause_turn")),
        events(message_start(), *text_block(" Found."), *message_end("end_turn")),
    ]
    heard = caller.call(Request(caller.profile("anthropic"), PROMPT, ()))
    assert (heard.text, heard.reply.finish_reason) == ("Searching. Found.", "stop")
    assert caller.server.received[1].body["messages"][-1]["content"] == [{"type": "text", "text": "Searching."}]
    assert heard.assembly.usage is not None
    assert (heard.assembly.usage.tokens_in, heard.assembly.usage.tokens_out) == (20, 14)


def test_parameter_that_a_provider_refuses_is_learned_once(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "`top_k` is not supported."}}
    accepted = events(message_start(), *text_block("Four."), *message_end("end_turn"))
    caller.server.answers = [Answer(400, [json.dumps(refusal).encode()], "application/json"), accepted]
    profile = caller.profile("anthropic", parameters={"top_k": 5})
    for _ in range(2):
        assert caller.call(Request(profile, PROMPT, ())).text == "Four."
    assert ["top_k" in one.body for one in caller.server.received] == [True, False, False]
    assert caplog.text.count("from now on this process sends no 'top_k'") == 1


def test_reply_without_end_is_cut(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roboco.model.native.provider.MAX_RESPONSE_BYTES", 10_000)
    caller.server.answers = [Answer(200, [b"event: ping\ndata: " + b"x" * 20_000])]
    with pytest.raises(ModelError, match="more than 10000 bytes"):
        caller.call(Request(caller.profile("anthropic"), PROMPT, ()))


def body_of(caller: Caller, request: Request) -> dict[str, Any]:
    """Return the body that the request sends."""
    caller.server.answers = [Answer(418, [b'{"message": "no"}'], "application/json")]
    with pytest.raises(ServerFailure):
        caller.call(request)
    return caller.server.received[-1].body


def test_key_of_bedrock_is_a_bearer_token_and_never_sent_in_plain_text(caller: Caller) -> None:
    with pytest.raises(ModelError, match="Bearer authorization requires an HTTPS endpoint"):
        caller.call(Request(caller.profile("bedrock", api_key_env="NATIVE_KEY"), PROMPT, ()))
    assert caller.server.received == []


FORCED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "anthropic": lambda body: body["tool_choice"]["type"] == "any",
    "google": lambda body: body["toolConfig"]["functionCallingConfig"]["mode"] == "ANY",
    "bedrock": lambda body: "any" in body["toolConfig"]["toolChoice"],
    "openai-responses": lambda body: body["tool_choice"] == "required",
}


@pytest.mark.parametrize("provider", PROVIDERS.values())
def test_required_call_is_demanded(caller: Caller, provider: str) -> None:
    model = {"bedrock": "us.anthropic.claude-sonnet-4-20250514-v1:0"}.get(provider, "m")
    request = Request(caller.profile(provider, model=model), PROMPT, (tool("find"),), tool_choice="required")
    assert FORCED[provider](body_of(caller, request))


def test_image_is_sent_only_as_data(caller: Caller) -> None:
    content = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1/secret.png"}},
    ]
    body = body_of(caller, Request(caller.profile("anthropic"), ({"role": "user", "content": content},), ()))
    text, image, address = body["messages"][0]["content"]
    assert (text["text"], image["source"]["data"]) == ("Look.", "iVBORw0KGgo=")
    assert address["type"] == "text"


PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "SUQzBA==", "format": "mp3"}}


@pytest.mark.parametrize(
    ("provider", "content", "place", "expected"),
    [
        ("anthropic", PDF, ("messages", 0, "content", 0, "source"), ("application/pdf", "JVBERi0=")),
        ("google", PDF, ("contents", 0, "parts", 0, "inlineData"), ("application/pdf", "JVBERi0=")),
        ("google", SOUND, ("contents", 0, "parts", 0, "inlineData"), ("audio/mpeg", "SUQzBA==")),
        ("bedrock", PDF, ("messages", 0, "content"), ('"document": {"name"', '"format": "pdf"', "JVBERi0=")),
        ("openai-responses", PDF, ("input", 0, "content", 0), ("input_file", "data:application/pdf;base64,JVBERi0=")),
    ],
)
def test_files_are_sent_as_each_protocol_wants_them(
    caller: Caller, provider: str, content: dict[str, Any], place: tuple[str | int, ...], expected: tuple[str, ...]
) -> None:
    found: Any = body_of(caller, Request(caller.profile(provider), ({"role": "user", "content": [content]},), ()))
    for step in place:
        found = found[step]
    assert all(value in json.dumps(found) for value in expected), found


def test_reply_that_the_package_of_aws_cannot_read_is_unreadable(caller: Caller) -> None:
    start = ("contentBlockStart", {"contentBlockIndex": 0, "start": {}})
    caller.server.answers = [amazon_events(("messageStart", {"role": "assistant"}), start)]
    with pytest.raises(ModelError, match="one and only one member") as failed:
        caller.call(Request(caller.profile("bedrock"), PROMPT, ()))
    assert failed.value.code == "unreadable"


def test_missing_packages_are_named_with_their_remedy(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "roboco.model.native.exchange", None)
    with pytest.raises(ModelError, match=r"pip install 'roboco\[providers\]'"):
        caller.run(
            Caller(caller.run, NativeWire(Learner()), caller.server).exchange(
                Request(caller.profile("google"), PROMPT, ())
            )
        )


def test_each_credential_has_its_own_client_up_to_a_number(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "MAX_CLIENTS", 2)
    caller.server.answers = [events(message_start(), *text_block("Four."), *message_end("end_turn"))]
    profile = caller.profile("anthropic", api_key_env=None, api_key={"credential": "model-key"})
    for key in ("canary-1", "canary-2", "canary-3", "canary-1"):
        caller.call(Request(profile, PROMPT, (), credential=key))
        assert key in str(caller.server.received[-1].headers)
    exchanges: Any = caller.wire._wire
    assert len(exchanges._providers._models) == 2


def stream(caller: Caller, profile: ModelProfile) -> Iterator[str | Reply]:
    """Yield what the model client reads from the server."""
    model = OpenAIModel(allowed=(f"NATIVE_KEY@{caller.server.url}",), retry_delay=0.01)
    try:
        yield from model.stream(Request(profile, PROMPT, ()))
    finally:
        close_model(model)


def test_profile_of_a_provider_is_called_by_its_protocol(caller: Caller) -> None:
    caller.server.answers = [events(message_start(), *text_block("Four."), *message_end("end_turn"))]
    *texts, reply = stream(caller, caller.profile("anthropic"))
    assert isinstance(reply, Reply)
    assert ("".join(map(str, texts)), reply.finish_reason, reply.usage.tokens_in) == ("Four.", "stop", 10)
    assert caller.server.received[0].path.startswith("/v1/messages")
