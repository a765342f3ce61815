"""Parts: what a step is made of."""

import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from roboco.domain.canonical_json import well_formed_json
from roboco.domain.paths import artifact_name
from roboco.domain.schema import Recorded


class ToolCall(Recorded):
    """A request of an agent to run a tool; without an `id` a constructor makes a new one."""

    id: str = Field(default_factory=lambda: f"tc_{uuid.uuid4().hex}")
    tool_name: str
    args: dict[str, Any]

    @model_validator(mode="after")
    def _whole(self, info: ValidationInfo) -> Self:
        return self.check_recorded(info, "id")


class ToolResult(Recorded):
    """What a tool call came to; `result` is any JSON, `runtime_ms` wall-clock milliseconds.

    Where `is_error` is not given, an `error` text makes it an error.
    """

    tool_call_id: str
    result: Any = None
    error: str | None = None
    is_error: bool = Field(default_factory=lambda given: given["error"] is not None)
    runtime_ms: int = 0

    @field_validator("result", "error")
    @classmethod
    def _clean(cls, value: Any) -> Any:
        return well_formed_json(value)


class Artifact(Recorded):
    """A file of the workspace; `size` in bytes, `sha256` in hexadecimal digits.

    Without an `artifact_id` it is the name in the `uri`. `version` counts from 1 among those
    that were written as `base`; `step_id` is the step that wrote it: the one that called the tool, or the message that
    brought it.
    """

    uri: str
    artifact_id: str = Field(default_factory=lambda given: _name_or_uri(given["uri"]))
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
    """A reference to a file of the workspace; the fields of `artifact` may also be those of the part itself."""

    type: Literal["artifact"] = "artifact"
    artifact: Artifact

    @model_validator(mode="before")
    @classmethod
    def _nested(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "artifact" in given or "uri" not in given:
            return given
        own = {"type": given["type"]} if "type" in given else {}
        return own | {"artifact": {name: value for name, value in given.items() if name != "type"}}

    @property
    def artifact_id(self) -> str:
        """The id of the artifact."""
        return self.artifact.artifact_id

    @property
    def uri(self) -> str:
        """The URI of the artifact."""
        return self.artifact.uri

    @property
    def mime_type(self) -> str:
        """The MIME type of the artifact."""
        return self.artifact.mime_type


class ErrorPart(Recorded):
    """Why something failed: `code` for programs, `message` for people."""

    type: Literal["error"] = "error"
    message: str
    code: str


Part = Annotated[TextPart | ToolCallPart | ToolResultPart | ArtifactPart | ErrorPart, Field(discriminator="type")]
"""A part of a step: a text, a tool call, a tool result, a file or an error."""


def brought_by(parts: Sequence[Part], step_id: str) -> tuple[Part, ...]:
    """The parts of a message's step, whose files it has brought."""
    return tuple(
        part.model_copy(update={"artifact": part.artifact.model_copy(update={"step_id": step_id})})
        if isinstance(part, ArtifactPart) and not part.artifact.step_id
        else part
        for part in parts
    )


def _name_or_uri(uri: str) -> str:
    try:
        return artifact_name(uri)
    except ValueError:
        return uri
