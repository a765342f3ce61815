"""instructor, with chat completions."""

import instructor
from openai import OpenAI
from pydantic import BaseModel
from rows import HELLO, PLACE, STOP, drive, endless, expect

client = instructor.from_openai(OpenAI())


class Place(BaseModel):
    city: str
    degrees: int


def ask(text: str, **options: object) -> object:
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="desk", messages=messages, **options)


def plain() -> None:
    expect(ask("Hello", response_model=None).choices[0].message.content, HELLO)


def stream() -> None:
    places = list(client.create_partial(Place, model="desk", messages=[{"role": "user", "content": "as JSON"}]))
    expect(places[-1].model_dump(), PLACE)


def structured() -> None:
    expect(ask("as JSON", response_model=Place), Place(**PLACE))
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.JSON):
        other = instructor.from_openai(OpenAI(), mode=mode)
        messages = [{"role": "user", "content": "as JSON"}]
        expect(other.create(Place, model="desk", messages=messages), Place(**PLACE))


def parameters() -> None:
    expect(ask("as JSON", response_model=Place, temperature=0, max_tokens=500, seed=7), Place(**PLACE))


def history() -> None:
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}]
    messages.append({"role": "user", "content": "two"})
    answer = client.chat.completions.create(model="desk", messages=messages, response_model=None)
    expect(answer.choices[0].message.content, "helper answers message 2: two")


def cancel() -> None:
    chunks = ask(endless("instructor"), response_model=None, stream=True, extra_headers=STOP)
    for chunk in chunks:
        if chunk.choices[0].delta.content:
            break
    chunks.close()


drive(
    {
        "plain": plain,
        "stream": stream,
        "structured output": structured,
        "parameters": parameters,
        "history": history,
        "cancel": cancel,
    }
)
