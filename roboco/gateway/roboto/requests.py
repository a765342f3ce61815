"""The bodies of requests. Unknown fields are ignored, as newer clients send them; fields that Roboco lacks are refused.

The client leaves out defaults, and sends null for a None that its caller has passed.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, JsonValue

from roboco.gateway.bodies.mistakes import FewMistakes
from roboco.gateway.problem import invalid
from roboco.gateway.roboto.goals import WireGoal

MAX_MESSAGES = 1000
"""Messages of a new session, with the earlier ones of its history."""
MAX_BLOCKS = 1000
"""Texts of one message."""
MAX_RESULTS = 100
"""Results of client tools in one request."""
_Category = Literal[
    "incorrect", "incomplete", "tool_failure", "refused_valid_request", "formatting", "slow", "unsafe", "other",
    "correct", "helpful", "good_tool_use",
]  # fmt: skip
_NO_SKILLS = "Roboco has no skills: give the agents of the team tools, or write the text into their prompts"


class TextBlock(BaseModel):
    """A text of a message."""

    text: str
    content_type: Literal["text"] = "text"


class WireMessage(BaseModel):
    """A message of the user, or an earlier one of an assistant."""

    role: Literal["user", "assistant"]
    content: Annotated[list[TextBlock], Field(min_length=1, max_length=MAX_BLOCKS)]

    @property
    def text(self) -> str:
        """The texts of the message, a line each."""
        return "\n".join(block.text for block in self.content)


class WireTool(BaseModel):
    """A tool that the client runs."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] = {"type": "object"}
    agents: list[str] | None = None

    def declared(self) -> dict[str, Any]:
        """Return the tool as a message of Roboco declares it, which needs a description."""
        return {
            "name": self.name,
            "description": self.description.strip() or self.name,
            "input_schema": self.input_schema,
            **({} if self.agents is None else {"agents": self.agents}),
        }


class MessageContext(FewMistakes):
    """The fields that belong to a message, whether it starts a session or not."""

    client_context: dict[str, JsonValue] | None = None
    context: dict[str, JsonValue] | None = None
    """The earlier name of `client_context`."""
    client_tools: list[WireTool] | None = None
    analysis_scope: dict[str, JsonValue] | None = None
    goals: list[WireGoal] | None = None
    invoke_skills: list[JsonValue] | None = None

    def check(self) -> None:
        """Raise Problem `invalid` for a field whose effect Roboco does not have."""
        if self.invoke_skills:
            raise invalid(f"invoke_skills: {_NO_SKILLS}")

    def viewed(self) -> dict[str, Any]:
        """Return the user's view: the fields that have a value."""
        return {name: value for name, value in (self.client_context or self.context or {}).items() if value is not None}

    def scoped(self) -> dict[str, Any]:
        """Return the scope of tools: the fields that have a value."""
        return {name: value for name, value in (self.analysis_scope or {}).items() if value is not None}


class StartRequest(MessageContext):
    """A new session."""

    messages: Annotated[list[WireMessage], Field(max_length=MAX_MESSAGES)] = []
    system_prompt: str | None = None
    model_profile: str | None = None
    available_skills: list[JsonValue] | None = None

    def check(self) -> None:
        """Raise Problem `invalid` for a field whose effect Roboco does not have."""
        super().check()
        if self.available_skills:
            raise invalid(f"available_skills: {_NO_SKILLS}")


class SendRequest(MessageContext):
    """A message of the user. Without a message, goals make one."""

    message: WireMessage | None = None


class ToolResultBody(BaseModel):
    """The result of a client tool."""

    tool_use_id: str
    tool_name: str = ""
    runtime_ms: Annotated[int, Field(ge=0)] = 0
    status: Literal["success", "error", "declined"]
    output: dict[str, JsonValue] | None = None


class ToolResultsRequest(FewMistakes):
    """Results of client tools."""

    tool_results: Annotated[list[ToolResultBody], Field(min_length=1, max_length=MAX_RESULTS)]
    client_tools: list[WireTool] | None = None


class ForkBody(FewMistakes):
    """The last message that a fork shares with its origin."""

    message_sequence_num: Annotated[int, Field(ge=0)]


class InvokeRequest(FewMistakes):
    """The values of an agent's variables."""

    values: dict[str, str] = {}
    analysis_scope: dict[str, JsonValue] | None = None


class FeedbackRequest(FewMistakes):
    """A rating of a message of an assistant."""

    sentiment: Literal["positive", "negative"]
    categories: Annotated[list[_Category], Field(max_length=20)] = []
    notes: Annotated[str | None, Field(max_length=4000)] = None
