"""The package openai-agents, unmodified, against a gateway, real workers and a scripted model."""

import asyncio

import pytest
from agents import (
    Agent,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent

from tests.support.gateway_openai import GatewayProcess

pytestmark = pytest.mark.workers
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(autouse=True)
def _without_tracing() -> None:
    set_tracing_disabled(True)


@function_tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sun in {city}"


@pytest.fixture(params=["responses", "chat"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def model(client: AsyncOpenAI, kind: str) -> Model:
    """Return the team as a model of the package."""
    if kind == "chat":
        return OpenAIChatCompletionsModel("desk", client)
    return OpenAIResponsesModel("desk", client)


def test_an_agent_runs_its_function_and_continues(gateway: GatewayProcess, kind: str) -> None:
    async def run() -> tuple[str, str]:
        async with AsyncOpenAI(base_url=gateway.base_url, api_key="none") as client:
            agent = Agent(name="one", instructions="Be brief.", model=model(client, kind), tools=[weather])
            first = await Runner.run(agent, "the weather?", run_config=QUIET)
            history = [*first.to_input_list(), {"role": "user", "content": "thanks"}]
            second = await Runner.run(agent, history, run_config=QUIET)  # type: ignore[arg-type]
            return str(first.final_output), str(second.final_output)

    first, second = asyncio.run(run())
    assert first == "The result is sun in Bonn."
    assert second == "helper answers message 2: thanks"


def test_an_agent_streams(gateway: GatewayProcess, kind: str) -> None:
    async def run() -> tuple[str, str]:
        async with AsyncOpenAI(base_url=gateway.base_url, api_key="none") as client:
            agent = Agent(name="one", model=model(client, kind))
            result = Runner.run_streamed(agent, "hello", run_config=QUIET)
            texts = [
                event.data.delta
                async for event in result.stream_events()
                if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
            ]
            return "".join(texts), str(result.final_output)

    streamed, final = asyncio.run(run())
    assert streamed == final == "helper answers message 1: hello"
