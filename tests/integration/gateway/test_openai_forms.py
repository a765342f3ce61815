"""Structured output, sampling parameters and instructions, by unmodified clients, real workers and a scripted model."""

import base64
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, BadRequestError, NotFoundError
from pydantic import BaseModel

from tests.support import forked
from tests.support.documents import example
from tests.support.gateway_openai import PERSON
from tests.support.gateway_process import GatewayProcess

PNG = b"\x89PNG\r\n\x1a\n"
pytestmark = pytest.mark.workers


class Person(BaseModel):
    """The form of an answer."""

    name: str
    age: int


ADA = Person(name="Ada", age=36)
SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}


def test_the_package_parses_an_answer_in_a_form_which_ends_with_the_answer(gateway: GatewayProcess) -> None:
    """`tests/clients` drives the other packages."""
    asked: Any = {"model": "desk", "messages": [{"role": "user", "content": "Who is it?"}], "response_format": Person}
    with gateway.client() as opened:
        client: Any = opened
        assert client.chat.completions.parse(**asked).choices[0].message.parsed == ADA
        with client.chat.completions.stream(**asked) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == ADA
        done = client.responses.parse(model="desk", input="Who is it?", text_format=Person)
        assert done.output_parsed == ADA
        with client.responses.stream(
            model="desk", input="Who is it?", text_format=Person, previous_response_id=done.id
        ) as events:
            assert events.get_final_response().output_parsed == ADA
        plain = client.responses.create(model="desk", input="hello", previous_response_id=done.id)
        assert "Ada" not in plain.output_text


def test_only_the_last_agent_answers_in_the_form(gateway: GatewayProcess) -> None:
    with gateway.client() as opened:
        client: Any = opened
        messages: Any = [{"role": "user", "content": "who is it?"}]
        chunks = list(
            client.chat.completions.create(model="line", messages=messages, response_format=SCHEMA, stream=True)
        )
        assert Person.model_validate_json("".join(c.choices[0].delta.content or "" for c in chunks if c.choices)) == ADA
        text: Any = {"format": {"type": "json_schema", **SCHEMA["json_schema"]}}
        response = client.responses.create(model="line", input="who is it?", text=text)
        assert [item.content[0].text for item in response.output] == ['{"age":36,"name":"Ada"}']
        assert client.responses.retrieve(response.id).output == response.output


def test_sampling_parameters_are_ignored_by_name_and_those_of_the_setting_are_passed_on(
    gateway: GatewayProcess,
) -> None:
    with gateway.client() as opened:
        client: Any = opened
        raw = client.chat.completions.with_raw_response.create(
            model="desk",
            messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
            temperature=0,
            max_completion_tokens=5,
            seed=7,
        )
    assert raw.headers["roboco-ignored"] == "max_completion_tokens, temperature"
    sent = gateway.stack.model.requests[-1].request
    assert (sent.body["seed"], "temperature" in sent.body) == (7, False)
    assert [message["role"] for message in sent.messages] == ["system", "user"]
    assert sent.system == "helper of team desk\n\nBe brief."
    assert sent.last_user == "hello"


def test_one_call_at_a_time_is_one_call(gateway: GatewayProcess) -> None:
    weather: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    with gateway.client() as opened:
        client: Any = opened
        answer = client.chat.completions.create(
            model="desk",
            messages=[{"role": "user", "content": "the weather of both"}],
            tools=[weather],
            parallel_tool_calls=False,
        )
        assert len(answer.choices[0].message.tool_calls or ()) == 1
        named = client.chat.completions.create(
            model="desk",
            messages=[{"role": "user", "content": "hello"}],
            tools=[weather],
            tool_choice={"type": "function", "function": {"name": "weather"}},
        )
        [call] = named.choices[0].message.tool_calls
        assert (call.function.name, named.choices[0].finish_reason) == ("weather", "tool_calls")
        assert call.function.arguments == f'{{"name":"{PERSON["name"]}","age":{PERSON["age"]}}}'


def test_a_reference_to_an_item_continues_after_its_response(gateway: GatewayProcess) -> None:
    with gateway.client() as opened:
        client: Any = opened
        first = client.responses.create(model="desk", input="hello")
        reference = {"type": "item_reference", "id": first.output[0].id}
        asked = [{"role": "user", "content": "hello"}, reference, {"role": "user", "content": "more"}]
        second = client.responses.create(model="desk", input=asked)
        assert second.output_text == "helper answers message 2: more"
        assert second.conversation.id == first.conversation.id
        again = client.responses.create(model="desk", input=[reference, {"role": "user", "content": "other"}])
        assert again.output_text == "helper answers message 2: other"  # a branch: it is not the newest response
        assert again.conversation.id != first.conversation.id
        for unknown in ("msg_1", f"msg_1_1.{first.conversation.id.removeprefix('conv_')}"):
            with pytest.raises(NotFoundError, match="send the content of the item"):
                client.responses.create(model="desk", input=[{"type": "item_reference", "id": unknown}, *asked[2:]])


def test_the_program_of_the_guide(gateway: GatewayProcess, tmp_path: Path) -> None:
    program = tmp_path / "openai_forms.py"
    program.write_text(example("file", program.name))
    environment = gateway.stack.environment | {"OPENAI_BASE_URL": gateway.base_url}
    assert forked.run_script(program, env=environment).split() == ["Ada", "36"]


def picture(color: int) -> str:
    return f"data:image/png;base64,{base64.b64encode(PNG + bytes([color])).decode()}"


def test_pictures_reach_a_model_that_accepts_them(gateway: GatewayProcess) -> None:
    first = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": picture(1)}}]
    with gateway.client() as opened:
        client: Any = opened
        messages = [{"role": "user", "content": first}]
        answer = client.chat.completions.create(model="seeing", messages=messages).choices[0].message.content
        assert answer == "I see 1 pictures"
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": [first[1], first[1]]}]
        again = client.chat.completions.create(model="seeing", messages=messages)
        assert again.choices[0].message.content == "I see 1 pictures"  # the same one, three times
        shown: Any = {"role": "user", "content": [{"type": "input_image", "image_url": picture(1)}]}
        headers = {"Idempotency-Key": f"picture-{gateway.port}"}
        response = client.responses.create(model="seeing", input=[shown], extra_headers=headers)
        assert client.responses.create(model="seeing", input=[shown], extra_headers=headers).id == response.id
        shown["content"][0]["image_url"] = picture(2)
        more = client.responses.create(model="seeing", input=[shown], previous_response_id=response.id)
        assert more.output_text == "I see 2 pictures"
        branch = client.responses.create(model="seeing", input=[shown], previous_response_id=response.id)
        assert branch.output_text == "I see 2 pictures"
        with pytest.raises(BadRequestError, match="no model of team 'desk' accepts image files"):
            client.chat.completions.create(model="desk", messages=messages[:1])


def test_a_conversation_lists_its_items_and_keeps_instructions(gateway: GatewayProcess) -> None:
    with gateway.client() as opened:
        client: Any = opened
        conversation = client.conversations.create(items=[{"role": "system", "content": "Be brief."}]).id
        outputs = [
            client.responses.create(model="desk", input=text, conversation=conversation) for text in ("hello", "more")
        ]
        assert [output.instructions for output in outputs] == ["Be brief."] * 2
        items = list(client.conversations.items.list(conversation, order="asc", limit=3))
        assert [(item.role, item.content[0].text) for item in items] == [
            ("system", "Be brief."),
            ("user", "hello"),
            ("assistant", "helper answers message 1: hello"),
            ("user", "more"),
            ("assistant", "helper answers message 2: more"),
        ]
        assert [items[2].id, items[4].id] == [output.output[0].id for output in outputs]
        with pytest.raises(APIStatusError, match="previous_response_id"):
            client.conversations.items.delete(items[1].id, conversation_id=conversation)
