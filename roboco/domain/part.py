"""Parts: what a step is made of."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from roboco.domain.canonical import well_formed_json

MAX_NAME = 128
"""The longest name of an artifact, in characters."""
NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")
_URI = re.compile(r"file://(?:\./)?artifacts/(.+)")


class Recorded(BaseModel):
    """A model that Roboco itself wrote: unknown fields of newer releases are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)


class ToolCall(Recorded):
    """A request of an agent to run a tool."""

    id: str
    tool_name: str
    args: dict[str, Any]


class ToolResult(Recorded):
    """What a tool call came to; `result` is any JSON, `runtime_ms` wall-clock milliseconds."""

    tool_call_id: str
    result: Any = None
    is_error: bool = False
    error: str | None = None
    runtime_ms: int = 0

    @field_validator("result", "error")
    @classmethod
    def _clean(cls, value: Any) -> Any:
        return well_formed_json(value)


class Artifact(Recorded):
    """A file of the workspace; `size` in bytes, `sha256` in hexadecimal digits.

    `version` counts from 1 among those that were written as `base`; `step_id` is the step that wrote it: the one that
    called the tool, or the message that brought it.
    """

    artifact_id: str
    uri: str
    mime_type: str
    size: int = 0
    sha256: str = ""
    base: str = ""
    version: int = 1
    step_id: str = ""

    @property
    def name(self) -> str:
        """The name below `artifacts/`."""
        return artifact_name(self.uri)


class TextPart(Recorded):
    """Text of an agent or a user."""

    type: Literal["text"] = "text"
    text: str


class ToolCallPart(Recorded):
    """One tool call."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCall


class ToolResultPart(Recorded):
    """The result of one tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: ToolResult


class ArtifactPart(Recorded):
    """A reference to a file of the workspace."""

    type: Literal["artifact"] = "artifact"
    artifact: Artifact


class ErrorPart(Recorded):
    """Why something failed: `code` for programs, `message` for people."""

    type: Literal["error"] = "error"
    message: str
    code: str


Part = Annotated[TextPart | ToolCallPart | ToolResultPart | ArtifactPart | ErrorPart, Field(discriminator="type")]


def brought_by(parts: Sequence[Part], step_id: str) -> tuple[Part, ...]:
    """The parts of a message's step, whose files it has brought."""
    return tuple(
        part.model_copy(update={"artifact": part.artifact.model_copy(update={"step_id": step_id})})
        if isinstance(part, ArtifactPart) and not part.artifact.step_id
        else part
        for part in parts
    )


def artifact_name(uri_or_name: str) -> str:
    """The name of an artifact from its name or URI; ValueError if it could leave the workspace."""
    match = _URI.fullmatch(uri_or_name)
    name = match.group(1) if match else uri_or_name
    if not NAME.fullmatch(name):
        raise ValueError(
            f"artifact {uri_or_name[:120]!r} is not allowed: a name has 1 to 128 letters, digits, '_', '-' "
            "and '.', no folders, and does not start with '.'"
        )
    return name


def artifact_uri(name: str) -> str:
    """The URI of the artifact with this name, relative to the workspace."""
    return f"file://artifacts/{artifact_name(name)}"
