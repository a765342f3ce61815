"""An agent of pydantic-ai whose requests and calls are lines of a file, in the order in which they begin."""

import os
import time
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

FILE = "begun.txt"


def _begin(name: str) -> int:
    """Write the line. Return how many of this name have begun."""
    with (Path(os.environ["TEST_FOLDER"]) / FILE).open("a+") as file:
        file.write(f"{name}\n")
        file.flush()
        file.seek(0)
        return file.read().splitlines().count(name)


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool, then answer. The first request for the answer hangs."""
    results = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not results:
        _begin("request a call")
        return ModelResponse(parts=[ToolCallPart("pay", {"amount": 3})])
    if _begin("request an answer") == 1:
        time.sleep(600)
    return ModelResponse(parts=[TextPart(f"{results[0].content}, thanks")])


cashier = Agent(FunctionModel(reply))


@cashier.tool_plain
def pay(amount: int) -> str:
    """Pay."""
    _begin("pay")
    return f"paid {amount}"
