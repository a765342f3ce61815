"""openai, with responses and with chat completions."""

import json
from typing import Any

from openai import OpenAI
from pydantic import BaseModel
from rows import FUNCTION, HELLO, LONG_TEXT, PLACE, STOP, WEATHER, drive, endless, expect, expect_pieces, weather

client = OpenAI()


class Place(BaseModel):
    city: str
    degrees: int


def said(text: str) -> Any:
    return [{"role": "user", "content": text}]


def plain() -> None:
    expect(client.responses.create(model="desk", input="Hello").output_text, HELLO)
    expect(client.chat.completions.create(model="desk", messages=said("Hello")).choices[0].message.content, HELLO)


def stream() -> None:
    with client.responses.stream(model="desk", input="a long one") as events:
        expect_pieces([event.delta for event in events if event.type == "response.output_text.delta"])
        expect(events.get_final_response().output_text, LONG_TEXT)
    chunks = client.chat.completions.create(model="desk", messages=said("a long one"), stream=True)
    expect_pieces(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)


def tools() -> None:
    function: Any = {"type": "function", **FUNCTION}
    first = client.responses.create(model="desk", input="the weather?", tools=[function])
    [call] = [item for item in first.output if item.type == "function_call"]
    output: Any = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": weather(**json.loads(call.arguments)),
    }
    second = client.responses.create(model="desk", input=[output], previous_response_id=first.id, tools=[function])
    expect(second.output_text, WEATHER)
    messages, nested = said("the weather?"), [{"type": "function", "function": FUNCTION}]
    asked: Any = client.chat.completions.create(model="desk", messages=messages, tools=nested).choices[0].message
    [asked_call] = asked.tool_calls
    result = weather(**json.loads(asked_call.function.arguments))
    messages += [asked, {"role": "tool", "tool_call_id": asked_call.id, "content": result}]
    answer = client.chat.completions.create(model="desk", messages=messages, tools=nested)
    expect(answer.choices[0].message.content, WEATHER)


def structured() -> None:
    response = client.responses.parse(model="desk", input="as JSON", text_format=Place)
    expect(response.output_parsed, Place(**PLACE))
    completion = client.chat.completions.parse(model="desk", messages=said("as JSON"), response_format=Place)
    expect(completion.choices[0].message.parsed, Place(**PLACE))


def parameters() -> None:
    response = client.responses.create(model="desk", input="Hello", temperature=0.2, top_p=0.9, max_output_tokens=500)
    expect(response.output_text, HELLO)
    completion = client.chat.completions.create(
        model="desk",
        messages=said("Hello"),
        temperature=0.2,
        max_tokens=500,
        seed=7,
        frequency_penalty=0.1,
        presence_penalty=0.1,
    )
    expect(completion.choices[0].message.content, HELLO)


def history() -> None:
    first = client.responses.create(model="desk", input="one")
    second = client.responses.create(model="desk", input="two", previous_response_id=first.id)
    expect(second.output_text, "helper answers message 2: two")
    messages = [*said("one"), {"role": "assistant", "content": "1"}, *said("two")]
    completion = client.chat.completions.create(model="desk", messages=messages)
    expect(completion.choices[0].message.content, "helper answers message 2: two")
    conversation = client.conversations.create(items=messages[:1], metadata={"topic": "matrix"}).id
    added = client.conversations.items.create(conversation, items=[*messages[1:2], *said("wrong")])
    client.conversations.items.delete(added.last_id, conversation_id=conversation)
    third = client.responses.create(model="desk", input="two", conversation=conversation)
    expect(third.output_text, "helper answers message 2: two")
    expect(len(list(client.conversations.items.list(conversation, limit=3))), 4)
    expect(client.conversations.update(conversation, metadata={"topic": "b"}).metadata, {"topic": "b"})
    expect(client.conversations.delete(conversation).deleted, True)


def cancel() -> None:
    response = client.responses.create(model="desk", input=endless("openai"), background=True)
    expect(client.responses.cancel(response.id).status, "cancelled")
    chunks = client.with_options(default_headers=STOP).chat.completions.create(
        model="desk", messages=said(endless("openai")), stream=True
    )
    for chunk in chunks:
        if chunk.choices[0].delta.content:
            break
    chunks.close()


drive(
    {
        "plain": plain,
        "stream": stream,
        "tools": tools,
        "structured output": structured,
        "parameters": parameters,
        "history": history,
        "cancel": cancel,
    }
)
