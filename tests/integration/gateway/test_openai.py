"""OpenAI's package, unmodified, against a gateway, real workers and a scripted model."""

import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseFunctionToolCall

from roboco.lab.servers.gate import Gate
from tests.support.documents import example
from tests.support.gateway_openai import LONG_ANSWER, GatewayProcess
from tests.support.stack import until

pytestmark = pytest.mark.workers
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_WEATHER: Any = {"type": "function", "function": {key: WEATHER[key] for key in WEATHER if key != "type"}}


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[OpenAI]:
    with gateway.client() as opened:
        yield opened


def task_id_of(response_id: str) -> str:
    """Return the task of a response or completion."""
    match = re.fullmatch(r"(?:resp_|chatcmpl-)(.+)_\d+", response_id)
    assert match is not None
    return match[1]


def test_models_are_the_teams(client: OpenAI) -> None:
    assert {model.id for model in client.models.list()} >= {"desk", "line", "guarded"}
    assert client.models.retrieve("desk").owned_by == "roboco"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_a_response_whole_and_read_again(client: OpenAI) -> None:
    response = client.responses.create(model="desk", input="Hello", instructions="Be brief.")
    assert (response.status, response.output_text) == ("completed", "helper answers message 1: Hello")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    again = client.responses.retrieve(response.id)
    assert again.output == response.output
    assert (again.status, again.instructions) == ("completed", "Be brief.")


def test_a_response_of_several_agents_has_a_message_of_each(client: OpenAI) -> None:
    response = client.responses.create(model="line", input="Go")
    assert [item.type for item in response.output] == ["message", "message"]


def test_a_streamed_response_by_the_helper(client: OpenAI) -> None:
    with client.responses.stream(model="desk", input="a long one") as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    assert types[:4] == ["response.created", "response.queued", "response.in_progress", "response.output_item.added"]
    assert types[-1] == "response.completed"
    assert final.output_text == "".join(LONG_ANSWER)


def test_a_cut_stream_resumes_after_each_event(client: OpenAI) -> None:
    events = list(client.responses.create(model="desk", input="a long one, cut", stream=True))
    response_id = events[0].response.id  # type: ignore[union-attr]
    whole = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert whole == "".join(LONG_ANSWER)
    for cut in range(0, len(events) - 1, 7):
        after = events[cut].sequence_number
        rest = client.responses.retrieve(response_id, stream=True, starting_after=after)
        later = list(rest)
        texts = [event.delta for event in [*events[: cut + 1], *later] if event.type == "response.output_text.delta"]
        assert "".join(texts) == whole, f"cut after {cut}"
        assert later[-1].type == "response.completed"
    with client.responses.stream(response_id=response_id, starting_after=5) as helper:
        assert helper.get_final_response().output_text == whole


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


def test_a_conversation_by_its_id(client: OpenAI) -> None:
    conversation = client.conversations.create()
    first = client.responses.create(model="desk", input="one", conversation=conversation.id)
    second = client.responses.create(model="desk", input="two", conversation=conversation.id)
    assert second.output_text == "helper answers message 2: two"
    assert first.conversation is not None
    assert first.conversation.id == conversation.id
    assert client.conversations.retrieve(conversation.id).id == conversation.id


def test_a_background_response_is_polled(client: OpenAI) -> None:
    response = client.responses.create(model="desk", input="a slow and long one, later", background=True)
    assert response.status in ("queued", "in_progress")
    deadline = time.monotonic() + 60
    while response.status in ("queued", "in_progress") and time.monotonic() < deadline:
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    assert (response.status, response.output_text) == ("completed", "".join(LONG_ANSWER))


def test_a_cancelled_response_keeps_its_text_and_can_be_continued(gateway: GatewayProcess, client: OpenAI) -> None:
    stream = client.responses.create(model="desk", input="endless", stream=True)
    response_id, texts, last = "", [], None
    for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            texts.append(event.delta)
            if len(texts) == 3:
                assert client.responses.cancel(response_id).status == "cancelled"
        last = event
    assert last is not None
    assert last.type == "response.incomplete"
    assert last.response.status == "cancelled"
    assert last.response.output_text == "".join(texts)
    [record] = [one for one in gateway.stack.model.requests if one.request.last_user == "endless"]
    until(lambda: record.client_disconnected_at is not None, 60, "the connection to the model is closed")
    after = client.responses.create(model="desk", input="go on", previous_response_id=response_id)
    assert "go on" in after.output_text


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


@pytest.mark.parametrize("streamed", [False, True])
def test_several_calls_are_answered_by_one_request(client: OpenAI, streamed: bool) -> None:
    """The task applies the results one after another. The response ends when all have led to an answer."""
    first = client.responses.create(model="desk", input="both weather?", tools=[WEATHER])
    calls = [item for item in first.output if isinstance(item, ResponseFunctionToolCall)]
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"sun {number}"}
        for number, call in enumerate(calls)
    ]
    second: Any = client.responses.create(
        model="desk", input=outputs, previous_response_id=first.id, tools=[WEATHER], stream=streamed
    )
    second = list(second)[-1].response if streamed else second
    assert second.output_text == "The results are ['sun 0', 'sun 1']."
    assert client.responses.retrieve(second.id).output == second.output
    again = list(client.responses.retrieve(second.id, stream=True))[-1]
    assert again.type == "response.completed"
    assert again.response.output == second.output


@pytest.mark.parametrize("streamed", [False, True])
def test_several_calls_of_a_chat_are_answered_by_one_request(client: OpenAI, streamed: bool) -> None:
    messages: Any = [{"role": "user", "content": "both weather?"}]
    first = client.chat.completions.create(model="desk", messages=messages, tools=[CHAT_WEATHER])
    asked = first.choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"sun {number}"}
        for number, call in enumerate(asked.tool_calls or ())
    ]
    messages = [*messages, asked.model_dump(exclude_none=True), *results]
    second: Any = client.chat.completions.create(model="desk", messages=messages, tools=[CHAT_WEATHER], stream=streamed)
    if streamed:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in second)
    else:
        text = second.choices[0].message.content or ""
    assert text == "The results are ['sun 0', 'sun 1']."


def test_functions_round_trip_without_a_previous_response(client: OpenAI) -> None:
    question: Any = {"role": "user", "content": "the weather?"}
    with client.responses.stream(model="desk", input=[question], tools=[WEATHER]) as stream:
        first = stream.get_final_response()
    [call] = [item for item in first.output if item.type == "function_call"]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    items: Any = [question, *(item.to_dict() for item in first.output), output]
    second = client.responses.create(model="desk", input=items, tools=[WEATHER], stream=True)
    final = list(second)[-1]
    assert final.type == "response.completed"
    assert final.response.output_text == "The result is rain."
    assert task_id_of(final.response.id) == task_id_of(first.id)


def test_approvals_round_trip(client: OpenAI) -> None:
    first = client.responses.create(model="guarded", input="add")
    [asked] = [item for item in first.output if item.type == "mcp_approval_request"]
    assert (asked.name, asked.arguments) == ("add", '{"a":1,"b":2}')
    assert client.responses.retrieve(first.id).output == first.output
    given: Any = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    second = client.responses.create(model="guarded", input=[given], previous_response_id=first.id)
    assert second.output_text.startswith("The result is 3") or "3" in second.output_text


def test_a_repeated_approval_of_a_call_at_work_finds_its_response(gateway: GatewayProcess, client: OpenAI) -> None:
    first = client.responses.create(model="patient", input="add")
    [asked] = [item for item in first.output if item.type == "mcp_approval_request"]
    given: Any = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    options: Any = {"model": "patient", "input": [given], "previous_response_id": first.id}
    begun = client.responses.create(**options, background=True)
    task = gateway.stack.orchestrator.task(task_id_of(first.id))
    until(lambda: task.summary().status == "running", 60, "the call is at work")
    second = client.responses.create(**options)
    assert second.id == begun.id
    assert second.output_text == "The result is 3."


def test_a_limit_makes_a_response_incomplete(client: OpenAI) -> None:
    response = client.responses.create(model="limited", input="one")
    assert response.status in ("completed", "incomplete")
    if response.status == "completed":
        response = client.responses.create(model="limited", input="two", previous_response_id=response.id)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.conversation is not None
    patient, again = client.with_options(max_retries=0, timeout=60), {"model": "limited", "input": "again"}
    for where in ({"previous_response_id": response.id}, {"conversation": response.conversation.id}):
        with pytest.raises(openai.ConflictError) as refused:
            patient.responses.create(**again, **where)  # type: ignore[call-overload]
        assert refused.value.code == "limit_reached"


def test_a_failed_task_is_a_failed_response(client: OpenAI) -> None:
    response = client.responses.create(model="desk", input="fail")
    assert response.status == "failed"
    assert response.error is not None
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="desk", messages=[{"role": "user", "content": "fail"}])
    assert caught.value.code == "task_failed"


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


def test_chat_functions_round_trip(client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "the weather?"}]
    for streamed in (False, True):
        if streamed:
            with client.chat.completions.stream(model="desk", messages=messages, tools=[CHAT_WEATHER]) as stream:
                first: Any = stream.get_final_completion()
        else:
            first = client.chat.completions.create(model="desk", messages=messages, tools=[CHAT_WEATHER])
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.tool_calls is not None
        result = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "snow"}
        asked = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
        second = client.chat.completions.create(
            model="desk", messages=[*messages, asked, result], tools=[CHAT_WEATHER], stream=streamed
        )
        if streamed:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in second)  # type: ignore[union-attr]
        else:
            text = second.choices[0].message.content or ""  # type: ignore[union-attr]
        assert text == "The result is snow."


def test_a_client_that_disconnects_stops_a_chat_if_it_says_so(gateway: GatewayProcess, client: OpenAI) -> None:
    for header in ("stop", "continue"):
        stream = client.chat.completions.create(
            model="desk",
            messages=[{"role": "user", "content": f"endless {header}"}],
            stream=True,
            extra_headers={"X-Roboco-On-Disconnect": header},
        )
        chunk = next(iter(stream))
        stream.close()
        task = gateway.stack.orchestrator.task(task_id_of(chunk.id))
        if header == "stop":
            assert task.result(60).status == "cancelled"
        else:
            assert not task.summary().status.ended
            task.stop()


def test_errors_raise_the_classes_of_the_package(client: OpenAI) -> None:
    image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}]}]
    user: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="desk", messages=user, temperature=0.2)
    assert (refused.value.param, refused.value.code) == ("temperature", "unsupported_parameter")
    with pytest.raises(openai.BadRequestError) as stored:
        client.responses.create(model="desk", input="hi", store=False)
    assert stored.value.param == "store"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.create(model="nobody", input="hi")
    assert (unknown.value.param, unknown.value.code) == ("model", "model_not_found")
    for response_id in ("resp_none_0", "resp_x", "../x", "resp_task_1_999999"):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response_id)
    with pytest.raises(openai.APIStatusError) as kept:
        client.responses.delete(client.responses.create(model="desk", input="hi").id)
    assert kept.value.status_code == 405
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="desk", input=image)
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="desk", input="hi", tools=[WEATHER, WEATHER])


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


@pytest.mark.parametrize("where", ["after a response", "in a conversation", "first in a conversation"])
def test_an_idempotency_key_makes_one_message(client: OpenAI, where: str) -> None:
    options: Any = {"model": "desk", "extra_headers": {"Idempotency-Key": uuid.uuid4().hex}}
    if where == "after a response":
        options["previous_response_id"] = client.responses.create(model="desk", input="before").id
    else:
        options["conversation"] = client.conversations.create().id
    if where == "in a conversation":
        client.responses.create(model="desk", input="before", conversation=options["conversation"])
    first = client.responses.create(input="once", **options)
    assert client.responses.create(input="once", **options).id == first.id
    if where != "first in a conversation":
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            client.responses.create(input="twice", **options)
        assert refused.value.code == "idempotency_key_reused"


def test_the_program_of_the_guide(gateway: GatewayProcess, tmp_path: Path) -> None:
    program = tmp_path / "openai_responses.py"
    program.write_text(example("file", program.name))
    environment = gateway.stack.environment | {"OPENAI_BASE_URL": gateway.base_url}
    printed = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=120)
    assert printed.stdout.splitlines() == [
        "helper answers message 1: Where is my parcel?",
        "helper answers message 2: And now?helper answers message 1: Hello",
    ], printed.stderr
