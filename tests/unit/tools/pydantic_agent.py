"""An agent of pydantic-ai as an application has it, with a scripted model. Nothing in it is about Roboco but `deps`."""

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from roboco import ToolContext, tool

REQUESTS: list[str] = []
CALLS: list[str] = []
MAX_AMOUNT = [99]


class Total(BaseModel):
    """The answer."""

    total: int


@tool
def deps(context: ToolContext) -> int:
    """Return the deps of the agent."""
    return int(context.context.get("extra", 0))


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call two tools, give a wrong total, then the right one."""
    REQUESTS.append(str(info.instructions))
    parts = [part for message in messages for part in message.parts]
    results = [
        int(str(part.content))
        for part in parts
        if isinstance(part, ToolReturnPart) and part.tool_name != "final_result"
    ]
    if not results:
        return ModelResponse(parts=[ToolCallPart("add", {"a": 1, "b": 2}), ToolCallPart("twice", {"number": 5})])
    wrong = not any("too small" in str(part) for part in parts)
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"total": -1 if wrong else sum(results)})])


support = Agent(FunctionModel(reply), deps_type=int, output_type=Total)


@support.instructions
def instructions(ctx: RunContext[int]) -> str:
    """Return instructions that depend on the deps."""
    return f"Add {ctx.deps}."


@support.tool
def add(ctx: RunContext[int], a: int, b: int) -> int:
    """Add two numbers."""
    CALLS.append(f"add {a} {b}")
    return a + b + ctx.deps


@support.tool_plain
async def twice(number: int) -> int:
    """Double a number."""
    CALLS.append(f"twice {number}")
    return 2 * number


@support.output_validator
def positive(ctx: RunContext[int], value: Total) -> Total:
    """Refuse a negative total."""
    if value.total < 0:
        raise ModelRetry("too small")
    return value


def pay_twice(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Pay 1, then 2, with the same id of the call in both replies, as servers that count within a reply do."""
    paid = [
        part for message in messages for part in message.parts if isinstance(part, ToolReturnPart | RetryPromptPart)
    ]
    if len(paid) == 2:
        return ModelResponse(parts=[TextPart(", ".join(str(part.content) for part in paid))])
    return ModelResponse(parts=[ToolCallPart("pay", {"amount": len(paid) + 1}, tool_call_id="call_0")])


cashier = Agent(FunctionModel(pay_twice))


@cashier.tool_plain
def pay(amount: int) -> str:
    """Pay."""
    if amount > MAX_AMOUNT[0]:
        raise ModelRetry(f"at most {MAX_AMOUNT[0]}")
    CALLS.append(f"pay {amount!r}")
    return f"paid {amount}"


@tool(effect="irreversible", approval="required")
def purge(context: ToolContext) -> int:
    """Remove everything."""
    CALLS.append("purge")
    return 0
