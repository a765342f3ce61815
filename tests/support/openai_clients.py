"""Drives of unmodified clients of OpenAI's API: functions of a base URL and a key, which raise if an answer is wrong.

`python openai_clients.py NAME URL KEY` runs one, in any environment that has the client. The team `desk` answers, whose
scripted model knows a person: see `gateway_openai.py`.
"""

import asyncio
import sys
from collections.abc import Callable

from pydantic import BaseModel

TEAM = "desk"
QUESTION = "Who is it?"


class Person(BaseModel):
    """A person."""

    name: str
    age: int


ADA = Person(name="Ada", age=36)


def expect(found: object) -> None:
    """Raise AssertionError unless this is the person."""
    assert found == ADA, found


def openai_parse_chat(url: str, key: str) -> None:
    from openai import OpenAI

    messages = [{"role": "user", "content": QUESTION}]
    with OpenAI(base_url=url, api_key=key) as client:
        done = client.chat.completions.parse(model=TEAM, messages=messages, response_format=Person)  # type: ignore[arg-type]
        expect(done.choices[0].message.parsed)
        with client.chat.completions.stream(model=TEAM, messages=messages, response_format=Person) as stream:  # type: ignore[arg-type]
            expect(stream.get_final_completion().choices[0].message.parsed)


def openai_parse_response(url: str, key: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=url, api_key=key) as client:
        done = client.responses.parse(model=TEAM, input=QUESTION, text_format=Person)
        expect(done.output_parsed)
        with client.responses.stream(
            model=TEAM, input=QUESTION, text_format=Person, previous_response_id=done.id
        ) as stream:
            expect(stream.get_final_response().output_parsed)
        assert "Ada" not in client.responses.create(model=TEAM, input="hello", previous_response_id=done.id).output_text


def openai_agents(url: str, key: str) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner
    from openai import AsyncOpenAI

    async def run() -> None:
        async with AsyncOpenAI(base_url=url, api_key=key) as client:
            for model in (OpenAIChatCompletionsModel(TEAM, client), OpenAIResponsesModel(TEAM, client)):
                agent = Agent(name="one", model=model, output_type=Person)
                result = await Runner.run(agent, QUESTION, run_config=RunConfig(tracing_disabled=True))
                expect(result.final_output)

    asyncio.run(run())


def langchain_openai(url: str, key: str) -> None:
    from langchain_openai import ChatOpenAI

    for responses in (False, True):
        model = ChatOpenAI(model=TEAM, base_url=url, api_key=key, temperature=0, use_responses_api=responses)
        for method in ("json_schema", "function_calling", "json_mode"):
            expect(model.with_structured_output(Person, method=method).invoke(QUESTION + " JSON"))


def pydantic_ai(url: str, key: str) -> None:
    from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=key)
    for model in (OpenAIChatModel(TEAM, provider=provider), OpenAIResponsesModel(TEAM, provider=provider)):
        for form in (ToolOutput(Person), NativeOutput(Person), PromptedOutput(Person)):
            agent = Agent(model, output_type=form, model_settings={"temperature": 0.0})
            expect(agent.run_sync(QUESTION).output)


def instructor(url: str, key: str) -> None:
    import instructor as package
    from openai import OpenAI

    client = package.from_openai(OpenAI(base_url=url, api_key=key))
    found = client.chat.completions.create(
        model=TEAM, messages=[{"role": "user", "content": QUESTION}], response_model=Person, temperature=0
    )
    expect(Person(**found.model_dump()))


def litellm(url: str, key: str) -> None:
    import litellm as package

    messages = [{"role": "user", "content": QUESTION}]
    options = {"base_url": url, "api_key": key, "temperature": 0.2, "max_tokens": 200, "seed": 1}
    done = package.completion(model=f"openai/{TEAM}", messages=messages, response_format=Person, **options)
    expect(Person.model_validate_json(done.choices[0].message.content))


DRIVES: dict[str, Callable[[str, str], None]] = {
    drive.__name__: drive
    for drive in (
        openai_parse_chat,
        openai_parse_response,
        openai_agents,
        langchain_openai,
        pydantic_ai,
        instructor,
        litellm,
    )
}

if __name__ == "__main__":
    DRIVES[sys.argv[1]](sys.argv[2], sys.argv[3])
    print("ok", sys.argv[1])
