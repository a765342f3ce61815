"""pydantic-ai, with chat completions and with responses."""

import asyncio

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from rows import HELLO, PLACE, STOP, WEATHER, drive, endless, expect, expect_pieces, weather

MODELS = (OpenAIChatModel("desk"), OpenAIResponsesModel("desk"))


class Place(BaseModel):
    city: str
    degrees: int


def plain() -> None:
    for model in MODELS:
        expect(Agent(model, system_prompt="Be brief.").run_sync("Hello").output, HELLO)


def stream() -> None:
    async def run() -> None:
        for model in MODELS:
            async with Agent(model).run_stream("a long one") as result:
                expect_pieces([piece async for piece in result.stream_text(delta=True, debounce_by=None)])

    asyncio.run(run())


def tools() -> None:
    for model in MODELS:
        expect(Agent(model, tools=[weather]).run_sync("the weather?").output, WEATHER)


def structured() -> None:
    for model in MODELS:
        for form in (ToolOutput, NativeOutput, PromptedOutput):
            expect(Agent(model, output_type=form(Place)).run_sync("as JSON").output, Place(**PLACE))


def parameters() -> None:
    for model in MODELS:
        settings = {"temperature": 0.2, "max_tokens": 500, "seed": 7, "top_p": 0.9, "parallel_tool_calls": False}
        expect(Agent(model).run_sync("Hello", model_settings=settings).output, HELLO)


def history() -> None:
    for model in MODELS:
        first = Agent(model).run_sync("one")
        second = Agent(model).run_sync("two", message_history=first.all_messages())
        expect(second.output, "helper answers message 2: two")


def cancel() -> None:
    async def run() -> None:
        model = OpenAIChatModel("desk", provider=OpenAIProvider(openai_client=AsyncOpenAI(default_headers=STOP)))
        async with Agent(model).run_stream(endless("pydantic-ai")) as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                break

    asyncio.run(run())


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
