"""Attachments of a message: goals, client tools, client context, the form of the answer, scope, state and files."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from roboco.domain.canonical_json import json_bytes, validated_json
from roboco.domain.history.goal import MAX_GOALS, Goal
from roboco.domain.history.step import MAX_STATE_BYTES
from roboco.domain.schema import InputModel
from roboco.errors import UsageError

MAX_CLIENT_TOOLS = 128
"""The largest number of client tools of one message. Those of the newest message that declares some apply."""


class ClientTool(InputModel):
    """A tool of the client's. Its name begins with `client_`."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(pattern=r"^client_[A-Za-z0-9_-]{1,57}$")]
    description: Annotated[str, Field(min_length=1, max_length=4000)]
    input_schema: dict[str, JsonValue] = {"type": "object"}
    """The JSON Schema of its arguments."""
    output_schema: dict[str, JsonValue] | None = None
    """The JSON Schema of its result, for the form of a person who answers a call. No answer is checked against it."""
    agents: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None
    """The agents that may call it. By default all agents of the team may."""


MAX_INSTRUCTIONS_CHARS = 64 * 1024
"""The longest instructions of a message, in characters."""


class Sampling(InputModel):
    """Parameters of the model calls for a message, in place of those of the team's profiles."""

    model_config = ConfigDict(strict=True)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """The most tokens of a reply, if its profile allows more."""
    seed: int | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    reasoning_effort: Annotated[str, Field(max_length=20)] | None = None
    verbosity: Annotated[str, Field(max_length=20)] | None = None


class AnswerForm(InputModel):
    """The form of the answer to a message. It applies until the answer is complete."""

    model_config = ConfigDict(strict=True)

    instructions: Annotated[str, Field(max_length=MAX_INSTRUCTIONS_CHARS)] | None = None
    """Text below the prompt of each agent."""
    value: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    """The JSON Schema of the answer of the agent that ends the work."""
    calls: Literal["auto", "required", "none"] | None = None
    """With "required" that agent must call a client tool, and no other agent may. With "none" no agent may."""
    one_call: bool | None = None
    """True if a reply may have one call at most; further ones are dropped."""
    sampling: Sampling | None = None


MAX_ARTIFACTS = 20
"""The largest number of files of one message."""
MAX_ATTACHMENTS_BYTES = 64 * 1024
"""The largest attachments of a message, in bytes of their JSON."""


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Nanoseconds = Annotated[int, BeforeValidator(_whole)]
"""A whole number, which JSON may write as 600.0."""


class ToolScope(BaseModel):
    """The data that tools may use: a window of time in nanoseconds since 1970, and any fields that the tools know."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    start_time: Nanoseconds | None = None
    end_time: Nanoseconds | None = None

    @model_validator(mode="after")
    def _check_json(self) -> Self:
        """Refuse a window that is empty, and fields that are not JSON, such as NaN and deep nesting."""
        validated_json(self.model_extra or {})
        if self.start_time is not None and self.end_time is not None and self.start_time > self.end_time:
            raise ValueError(f"start_time {self.start_time} is after end_time {self.end_time}; exchange them")
        return self


class ClientViewingContext(BaseModel):
    """The user's current view in the client, by the names of document 003. A message takes any other object as well."""

    dataset_ids: list[str] = []
    file_ids: list[str] = []
    misc_context: dict[str, JsonValue] | None = None
    visualizer_state: dict[str, JsonValue] | None = None


class Attachments(InputModel):
    """The attachments of a message."""

    model_config = ConfigDict(strict=True)

    goals: Annotated[list[Goal], Field(max_length=MAX_GOALS)] = []
    """The goals for the agents."""
    client_tools: Annotated[list[ClientTool], Field(max_length=MAX_CLIENT_TOOLS)] = []
    """Tools that the client runs."""
    client_context: dict[str, JsonValue] = {}
    """The user's current view in the client. Agents see it; it has no other effect."""
    answer_form: AnswerForm | None = None
    """The form of the answer: its type, calls that it must have, and instructions."""
    scope: ToolScope | None = None
    """The scope of tool calls. Each call that workers run gets it, until a message brings another one.

    Roboco never enforces it.
    """
    state: dict[str, JsonValue] = {}
    """Values of the state that the task's prompts, conditions and tools see. Null removes a value."""
    artifacts: Annotated[list[str], Field(max_length=MAX_ARTIFACTS)] = []
    """Names of files that were stored with the task before."""

    def metadata(self) -> dict[str, Any]:
        """Return the attachments as metadata of the message's step."""
        whole = self.model_dump(
            mode="json", by_alias=True, include=set(Attachments.model_fields) - {"artifacts"}, exclude_none=True
        )
        return {name: value for name, value in whole.items() if value}

    def check(self) -> None:
        """Raise UsageError if names are repeated, or if the attachments are too large."""
        for where, names in (("goals", [goal.name for goal in self.goals]), ("client_tools", self.tool_names)):
            if twice := _first_duplicate(names):
                raise UsageError(f"{where}: {twice!r} is there twice; names must differ")
        check_size("state", self.state, MAX_STATE_BYTES)
        parts = "goals, client_tools, client_context, answer_form, scope and state"
        check_size(parts, self.metadata(), MAX_ATTACHMENTS_BYTES)

    @property
    def tool_names(self) -> list[str]:
        """Return the names of the client tools."""
        return [tool.name for tool in self.client_tools]

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return all JSON Schemas by their paths."""
        goals = {f"goals.{goal.name}.schema": goal.outcome for goal in self.goals}
        tools = {f"client_tools.{tool.name}.input_schema": tool.input_schema for tool in self.client_tools}
        results = {
            f"client_tools.{tool.name}.output_schema": tool.output_schema
            for tool in self.client_tools
            if tool.output_schema is not None
        }
        form = {} if self.answer_form is None or self.answer_form.value is None else {_FORM: self.answer_form.value}
        return goals | tools | results | form


_FORM = "answer_form.schema"


def check_size(name: str, value: object, most: int, remedy: str = "") -> None:
    """Raise UsageError if the value has more than this number of bytes of JSON."""
    if (size := json_bytes(value)) > most:
        raise UsageError(f"{name}: {size} bytes of JSON, at most {most} are possible{remedy}")


def _first_duplicate(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
