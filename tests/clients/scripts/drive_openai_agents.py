"""openai-agents, with responses, and with chat completions where it says so."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.memory.openai_conversations_session import start_openai_conversations_session
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel
from rows import HELLO, LONG_TEXT, PLACE, STOP, WEATHER, drive, endless, expect, expect_pieces, weather

set_tracing_disabled(True)
agent = Agent(name="one", instructions="Be brief.", model="desk")
QUIET = RunConfig(tracing_disabled=True)


class Place(BaseModel):
    city: str
    degrees: int


async def answer(asked: Agent[Any], text: str) -> Any:
    return (await Runner.run(asked, text, run_config=QUIET)).final_output


async def plain() -> None:
    expect(await answer(agent, "Hello"), HELLO)


async def stream() -> None:
    result = Runner.run_streamed(agent, "a long one", run_config=QUIET)
    expect_pieces(
        [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
        ]
    )
    expect(result.final_output, LONG_TEXT)


async def tools() -> None:
    expect(await answer(agent.clone(tools=[function_tool(weather)]), "the weather?"), WEATHER)


async def structured() -> None:
    expect(await answer(agent.clone(output_type=Place), "as JSON"), Place(**PLACE))


async def parameters() -> None:
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=500, parallel_tool_calls=False)
    expect(await answer(agent.clone(model_settings=settings), "Hello"), HELLO)


async def history() -> None:
    for session in (SQLiteSession("matrix"), OpenAIConversationsSession()):
        await Runner.run(agent, "one", session=session, run_config=QUIET)
        for _ in range(2):  # the second time after the first was undone
            second = await Runner.run(agent, "two", session=session, run_config=QUIET)
            expect(second.final_output, "helper answers message 2: two")
            expect([(await session.pop_item())["role"] for _ in range(2)], ["assistant", "user"])
        expect(len(await session.get_items()), 2)
        await session.clear_session()
        expect(await session.get_items(), [])
    conversation = await start_openai_conversations_session()
    for number in (1, 2):
        found = await Runner.run(agent, "again", conversation_id=conversation, run_config=QUIET)
        expect(found.final_output, f"helper answers message {number}: again")


async def cancel() -> None:
    model = OpenAIChatCompletionsModel("desk", AsyncOpenAI(default_headers=STOP))
    result = Runner.run_streamed(agent.clone(model=model), endless("openai-agents"), run_config=QUIET)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            result.cancel()


def in_loop(row: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Return the row in the one loop of this process: the package's clients are bound to it."""
    return lambda: loop.run_until_complete(row())


loop = asyncio.new_event_loop()
drive(
    {
        "plain": in_loop(plain),
        "stream": in_loop(stream),
        "tools": in_loop(tools),
        "structured output": in_loop(structured),
        "parameters": in_loop(parameters),
        "history": in_loop(history),
        "cancel": in_loop(cancel),
    }
)
