"""litellm, with chat completions."""

import json
import os
from typing import Any

import litellm
from pydantic import BaseModel
from rows import FUNCTION, HELLO, PLACE, STOP, WEATHER, drive, endless, expect, expect_pieces, weather


class Place(BaseModel):
    city: str
    degrees: int


def ask(text: str | list[Any], **options: Any) -> Any:
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    return litellm.completion("openai/desk", messages, api_base=os.environ["OPENAI_BASE_URL"], **options)


def plain() -> None:
    expect(ask("Hello").choices[0].message.content, HELLO)


def stream() -> None:
    expect_pieces(chunk.choices[0].delta.content for chunk in ask("a long one", stream=True))


def tools() -> None:
    messages: list[Any] = [{"role": "user", "content": "the weather?"}]
    offered = [{"type": "function", "function": FUNCTION}]
    asked = ask(messages, tools=offered).choices[0].message
    [call] = asked.tool_calls
    result = weather(**json.loads(call.function.arguments))
    messages += [asked, {"role": "tool", "tool_call_id": call.id, "content": result}]
    expect(ask(messages, tools=offered).choices[0].message.content, WEATHER)


def structured() -> None:
    answer = ask("as JSON", response_format=Place).choices[0].message.content
    expect(Place.model_validate_json(answer), Place(**PLACE))


def parameters() -> None:
    answer = ask("Hello", temperature=0.2, max_tokens=500, seed=7, top_p=0.9)
    expect(answer.choices[0].message.content, HELLO)


def history() -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]
    expect(ask(messages).choices[0].message.content, "helper answers message 2: two")


def cancel() -> None:
    chunks = ask(endless("litellm"), stream=True, extra_headers=STOP)
    for chunk in chunks:
        if chunk.choices[0].delta.content:
            break
    chunks.completion_stream.close()


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
