"""OpenAI's package, unmodified, against a gateway, real workers and a scripted model."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseFunctionToolCall

from roboco.lab.servers.gate import Gate
from tests.support import forked
from tests.support.documents import example
from tests.support.gateway_openai import LONG_ANSWER
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.workers
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[OpenAI]:
    with gateway.client() as opened:
        yield opened


def task_id_of(response_id: str) -> str:
    """Return the task of a response or completion."""
    match = re.fullmatch(r"(?:resp_|chatcmpl-)(.+)_\d+", response_id)
    assert match is not None
    return match[1]


def test_side_requests_of_front_ends_are_answered_without_the_team(gateway: GatewayProcess, client: OpenAI) -> None:
    assert "front:utility" in {model.id for model in client.models.list()}
    assert client.models.retrieve("front:utility").id == "front:utility"
    before = gateway.stack.model.count
    asked: Any = [{"role": "user", "content": "a title, please"}]
    answer = client.chat.completions.create(model="front:utility", messages=asked)
    assert answer.choices[0].message.content == "Do answers message 1: a title, please"
    [record] = gateway.stack.model.since(before)
    assert not record.request.tools
    assert "helper" not in record.request.system
    for name in ("line:utility", "front:other", "none:utility"):
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model=name, messages=asked)


def test_a_response_whole_and_read_again(client: OpenAI) -> None:
    response = client.responses.create(model="desk", input="Hello", instructions="Be brief.")
    assert (response.status, response.output_text) == ("completed", "helper answers message 1: Hello")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    again = client.responses.retrieve(response.id)
    assert again.output == response.output
    assert (again.status, again.instructions) == ("completed", "Be brief.")


def test_a_stream_that_is_cut_while_it_runs_resumes(client: OpenAI) -> None:
    events = []
    for event in client.responses.create(model="desk", input="a long one, live", stream=True):
        events.append(event)
        if len(events) == 20:
            break
    response_id = events[0].response.id  # type: ignore[union-attr]
    rest = client.responses.retrieve(response_id, stream=True, starting_after=events[-1].sequence_number)
    texts = [event.delta for event in [*events, *rest] if event.type == "response.output_text.delta"]
    assert "".join(texts) == "".join(LONG_ANSWER)


def test_a_conversation_by_previous_responses_stays_one_task_and_branches(client: OpenAI) -> None:
    first = client.responses.create(model="desk", input="one")
    second = client.responses.create(model="desk", input="two", previous_response_id=first.id)
    assert second.output_text == "helper answers message 2: two"
    assert task_id_of(first.id) == task_id_of(second.id)
    branch = client.responses.create(model="desk", input="other", previous_response_id=first.id)
    assert branch.output_text == "helper answers message 2: other"
    assert task_id_of(branch.id) != task_id_of(first.id)
    assert client.responses.retrieve(first.id).output_text == "helper answers message 1: one"
    third = client.responses.create(model="desk", input="three", previous_response_id=branch.id, stream=True)
    final = list(third)[-1]
    assert final.type == "response.completed"
    assert final.response.output_text == "helper answers message 3: three"
    items = client.responses.input_items.list(final.response.id)
    assert [item.to_dict()["content"] for item in items] == [[{"type": "input_text", "text": "three"}]]


def test_a_background_response_is_polled(client: OpenAI) -> None:
    response = client.responses.create(model="desk", input="a slow and long one, later", background=True)
    assert response.status in ("queued", "in_progress")
    deadline = time.monotonic() + 180
    while response.status in ("queued", "in_progress") and time.monotonic() < deadline:
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    assert (response.status, response.output_text) == ("completed", "".join(LONG_ANSWER))


def test_functions_of_the_client_round_trip(client: OpenAI) -> None:
    first = client.responses.create(model="desk", input="the weather?", tools=[WEATHER])
    [call] = [item for item in first.output if isinstance(item, ResponseFunctionToolCall)]
    assert (call.name, call.arguments) == ("weather", '{"city":"Bonn"}')
    with pytest.raises(openai.BadRequestError, match="no output found"):
        client.responses.create(model="desk", input="instead", previous_response_id=first.id)
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    second = client.responses.create(model="desk", input=[output], previous_response_id=first.id, tools=[WEATHER])
    assert second.output_text == "The result is sun."
    again = client.responses.create(model="desk", input=[output], previous_response_id=first.id)
    assert again.id == second.id


def test_approvals_round_trip(client: OpenAI) -> None:
    first = client.responses.create(model="guarded", input="add")
    [asked] = [item for item in first.output if item.type == "mcp_approval_request"]
    assert (asked.name, asked.arguments) == ("add", '{"a":1,"b":2}')
    assert client.responses.retrieve(first.id).output == first.output
    given: Any = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    second = client.responses.create(model="guarded", input=[given], previous_response_id=first.id)
    assert second.output_text.startswith("The result is 3") or "3" in second.output_text


def test_chat_completions_whole_and_streamed(client: OpenAI) -> None:
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "first answer"},
        {"role": "user", "content": "two"},
    ]
    whole = client.chat.completions.create(model="desk", messages=messages, seed=1)
    assert whole.choices[0].message.content == "helper answers message 2: two"
    assert whole.choices[0].finish_reason == "stop"
    stream = client.chat.completions.create(
        model="desk", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == (
        "helper answers message 2: two"
    )
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens > 0


def test_errors_raise_the_classes_of_the_package(client: OpenAI) -> None:
    user: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="desk", messages=user, n=2)
    assert (refused.value.param, refused.value.code) == ("n", "unsupported_parameter")
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.create(model="nobody", input="hi")
    assert (unknown.value.param, unknown.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_none_0")
    with pytest.raises(openai.APIStatusError) as kept:
        client.responses.delete(client.responses.create(model="desk", input="hi").id)
    assert kept.value.status_code == 405


def test_a_conversation_at_work_is_locked(client: OpenAI) -> None:
    busy = client.responses.create(model="desk", input="endless", background=True)
    patient = client.with_options(max_retries=0)
    assert busy.conversation is not None
    with pytest.raises(openai.ConflictError) as locked:
        patient.responses.create(model="desk", input="more", conversation=busy.conversation.id)
    assert locked.value.code == "conversation_locked"
    with pytest.raises(openai.ConflictError):
        patient.responses.create(model="desk", input="more", previous_response_id=busy.id)
    assert client.responses.cancel(busy.id).status == "cancelled"


@pytest.mark.parametrize("kind", ["whole", "stream", "chat", "next", "branch", "conversation", "conversation next"])
def test_a_request_whose_answer_is_lost_runs_once(gateway: GatewayProcess, client: OpenAI, kind: str) -> None:
    """The package repeats the request without a key. It gets the answer of the task that the first attempt began."""
    text = f"lost {kind}"
    first = client.responses.create(model="desk", input="before") if kind in ("next", "branch") else None
    if kind == "branch":
        assert first is not None
        client.responses.create(model="desk", input="newest", previous_response_id=first.id)
    conversation = client.conversations.create().id if "conversation" in kind else None
    if kind == "conversation next":
        client.responses.create(model="desk", input="before", conversation=conversation)
    before = len(list(gateway.stack.orchestrator.tasks()))
    with Gate(gateway.port) as gate:
        held = gate.hold(rb"POST /openai", answer=True)
        through = gateway.client(gate.port)

        def run() -> str:
            if kind == "chat":
                chat = through.chat.completions.create(model="desk", messages=[{"role": "user", "content": text}])
                return chat.choices[0].message.content or ""
            previous = {"previous_response_id": first.id} if first else {"conversation": conversation}
            if kind == "stream":
                events = list(through.responses.create(model="desk", input=text, stream=True))
                assert events[-1].type == "response.completed"
                return events[-1].response.output_text
            return through.responses.create(model="desk", input=text, **previous).output_text

        with ThreadPoolExecutor(1) as threads:
            result = threads.submit(run)
            assert held.reached.wait(60)
            held.drop()
            assert text in result.result(60)
    created = len(list(gateway.stack.orchestrator.tasks())) - before
    assert created == (0 if "next" in kind else 1)
    asked = [record for record in gateway.stack.model.requests if record.request.last_user == text]
    assert len(asked) == 1


def test_an_idempotency_key_makes_one_task(client: OpenAI) -> None:
    headers = {"Idempotency-Key": "order-7"}
    first = client.responses.create(model="desk", input="once", extra_headers=headers)
    again = client.responses.create(model="desk", input="once", extra_headers=headers)
    assert again.id == first.id
    with pytest.raises(openai.UnprocessableEntityError):
        client.responses.create(model="desk", input="twice", extra_headers=headers)
    plain = [client.responses.create(model="desk", input="same").id for _ in range(2)]
    assert len(set(plain)) == 2


def test_the_program_of_the_guide(gateway: GatewayProcess, tmp_path: Path) -> None:
    program = tmp_path / "openai_responses.py"
    program.write_text(example("file", program.name))
    environment = gateway.stack.environment | {"OPENAI_BASE_URL": gateway.base_url}
    assert forked.run_script(program, env=environment).splitlines() == [
        "helper answers message 1: Where is my parcel?",
        "helper answers message 2: And now?helper answers message 1: Hello",
    ]
