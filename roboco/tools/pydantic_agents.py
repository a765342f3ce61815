"""Agents of pydantic-ai, unmodified, as members of teams.

    conversation ─► agent.run with recorded replies and results ─► one model request ─► calls of tools, or the answer
                                                                └► or one call of a tool ─► its result

The agent itself runs at each turn and at each call: its instructions, deps, validators and settings are as anywhere.
Its model is wrapped: requests whose replies are recorded are not sent. Its toolsets are wrapped, too: a call whose
result is recorded returns that, the one call of this Celery task runs, and any other is left for a task that follows.
At the next request of the model with a call left, the run ends. Only public names of pydantic-ai are used.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_ai import AgentRunResult, DeferredToolRequests, ModelRetry, models
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from roboco.errors import UsageError
from roboco.ports.tools import ToolContext
from roboco.tools.function_answer import AgentAnswer
from roboco.tools.function_tool import mistakes_of
from roboco.tools.tool_result import to_json

PROVIDER_KEY = "pydantic_ai"
ModelCall = tuple[int, str]
"""A call in a run: the number of the reply that has made it, and its id in that reply, which others may repeat."""
_LEFT = "left for another task"
_UNREACHED = object()


class _CallsAreLeft(Exception):
    """The run ends here: calls are left."""


@dataclass
class RunSoFar:
    """What is recorded of the agent: the messages of finished runs, and the replies and results of the open one."""

    before: list[ModelMessage] = field(default_factory=list)
    prompt: list[str] = field(default_factory=list)
    replies: list[ModelMessage] = field(default_factory=list)
    results: dict[ModelCall, str] = field(default_factory=dict)
    ids: dict[str, ModelCall] = field(default_factory=dict)
    """Each call by its id in the history."""

    @classmethod
    def of(cls, context: ToolContext) -> "RunSoFar":
        """Return the conversation as the messages of the context show it."""
        found = cls()
        for message in context.messages:
            recorded = (message.get("provider") or {}).get(PROVIDER_KEY)
            if message["role"] == "tool":
                found.results[found.ids[message["tool_call_id"]]] = str(message["content"])
            elif message["role"] == "user":
                found.prompt.append(str(message["content"]))
            elif recorded is not None and "messages" in recorded:
                found.before += ModelMessagesTypeAdapter.validate_python(recorded["messages"])
                found.prompt, found.replies, found.results, found.ids = [], [], {}, {}
            elif recorded is not None:
                if recorded["from"] != len(found.replies):
                    raise UsageError("its run has more steps than it sees: raise `steps` of its `context` in the team")
                found.replies += ModelMessagesTypeAdapter.validate_python(recorded["replies"])
                made = [(len(found.replies) - 1, name) for name in recorded["calls"]]
                found.ids |= dict(zip((call["id"] for call in message.get("tool_calls") or ()), made, strict=True))
        return found


@dataclass
class AgentRerun:
    """One run of the agent: what it has newly asked, and what it has left to others."""

    conversation: RunSoFar
    runs: ModelCall | None = None
    """The call that runs, or None for a turn, in which none does."""
    args: dict[str, Any] = field(default_factory=dict)
    """Its arguments, which a person may have changed."""
    replies: list[ModelMessage] = field(default_factory=list)
    left: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """The id, the name and the arguments of each call that is left."""
    result: Any = _UNREACHED
    refused: str = ""
    """Why the tool refuses the call that runs."""
    asked: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def recorded_reply(self) -> ModelMessage | None:
        """Return the recorded reply to the next request, or None if it must be sent. Raise if calls are left."""
        number, self.asked = self.asked, self.asked + 1
        if number < len(self.conversation.replies):
            return self.conversation.replies[number]
        if self.left or self.runs:
            raise _CallsAreLeft
        return None

    @property
    def record(self) -> dict[str, Any]:
        """Return the new messages as their library writes them, and of an open run which calls they have made."""
        if not self.left:
            return {PROVIDER_KEY: {"messages": to_jsonable_python(self.replies), "calls": []}}
        replies, calls = to_jsonable_python(self.replies), [call_id for call_id, *_ in self.left]
        return {PROVIDER_KEY: {"replies": replies, "calls": calls, "from": len(self.conversation.replies)}}


class _Model(WrapperModel):
    """The agent's model. It answers from the record as far as that goes."""

    def __init__(self, wrapped: models.Model, run: AgentRerun) -> None:
        super().__init__(wrapped)
        self._run = run

    async def request(self, *args: Any, **kwargs: Any) -> ModelResponse:
        recorded = self._run.recorded_reply()
        if isinstance(recorded, ModelResponse):
            return recorded
        reply = await super().request(*args, **kwargs)
        self._run.replies.append(reply)
        self._run.tokens_in += reply.usage.input_tokens
        self._run.tokens_out += reply.usage.output_tokens
        return reply


@dataclass
class _Toolset(WrapperToolset[Any]):
    """A toolset of the agent. It returns recorded results, and runs at most the one call that is this task's."""

    run: AgentRerun

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call_id = str(ctx.tool_call_id)
        call = self.run.asked - 1, call_id
        if call in self.run.conversation.results:
            return self.run.conversation.results[call]
        if call == self.run.runs:
            if to_json(tool_args, name) != self.run.args:
                tool_args = _checked(tool, self.run.args)
            try:
                self.run.result = await super().call_tool(name, tool_args, ctx, tool)
            except ModelRetry as error:
                self.run.refused = error.message
                raise
            return self.run.result
        self.run.left.append((call_id, name, tool_args))
        return _LEFT


def _checked(tool: ToolsetTool[Any], args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as the tool's types make them. Raise UsageError if they do not fit."""
    try:
        checked: dict[str, Any] = tool.args_validator.validate_python(args)
    except ValidationError as error:
        raise UsageError(f"wrong arguments: {mistakes_of(error, 'arguments')}") from error
    return checked


def is_agent(found: object) -> bool:
    """Return True if the object is an agent of pydantic-ai."""
    return isinstance(found, AbstractAgent)


def take_turn(agent: AbstractAgent[Any, Any], deps: Any, context: ToolContext) -> tuple[AgentRerun, Any]:
    """Return the run after the next request of the agent's model, and the calls that are left, or the output."""
    run = AgentRerun(RunSoFar.of(context))
    ended = asyncio.run(_continue(agent, deps, run))
    if ended is None or run.left:
        return run, AgentAnswer(calls=[(f"{context.agent}__{name}", args) for _, name, args in run.left])
    if isinstance(ended.output, DeferredToolRequests):
        raise UsageError("its tools wait for approvals: declare `approval` of the agent in the team instead")
    run.replies = ended.new_messages()
    return run, ended.output


def run_call(agent: AbstractAgent[Any, Any], deps: Any, context: ToolContext, args: dict[str, Any]) -> Any:
    """Return the result of the call of the agent's tool that the context names, with these arguments.

    A person may have changed them. Raise UsageError if they do not fit, or if the tool has the model try again.
    """
    conversation = RunSoFar.of(context)
    run = AgentRerun(conversation, runs=conversation.ids[context.call_id], args=args)
    asyncio.run(_continue(agent, deps, run))
    if run.refused:
        raise UsageError(run.refused)
    if run.result is _UNREACHED:
        raise UsageError("its run did not reach the call again: the agent must do the same with the same replies")
    return run.result


async def _continue(agent: AbstractAgent[Any, Any], deps: Any, run: AgentRerun) -> AgentRunResult[Any] | None:
    """Run the agent. Return None if it ended because calls are left."""
    if agent.model is None:
        raise UsageError("an agent of pydantic-ai in a team needs a model")
    model = _Model(models.infer_model(agent.model), run)
    toolsets: Sequence[AbstractToolset[Any]] = [_Toolset(one, run) for one in agent.toolsets]
    prompt = "\n\n".join(run.conversation.prompt) or "Go on."
    with agent.override(model=model, toolsets=toolsets, tools=[]):
        try:
            return await agent.run(prompt, deps=deps, message_history=run.conversation.before or None)
        except _CallsAreLeft:
            return None
