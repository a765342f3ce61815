"""Parts: what a step is made of."""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from roboco.domain.canonical import well_formed_json

MAX_NAME = 128
"""The longest name of an artifact, in characters."""
NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")
_URI = re.compile(r"file://(?:\./)?artifacts/(.+)")


RECORDED: Final[Mapping[str, bool]] = {"recorded": True}
"""The validation context for the Python objects of a record, such as an event that was read from its log."""


class Recorded(BaseModel):
    """A model that Roboco itself wrote: unknown fields of newer releases are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    def check_recorded(self, info: ValidationInfo, *names: str) -> Self:
        """Return the value, or raise ValueError if it was read from a record that lacks one of these fields.

        A constructor makes up ids and times. Readers of a record must not: each would make up others.
        """
        missing = [name for name in names if name not in self.model_fields_set]
        if missing and is_record(info):
            raise ValueError(f"a recorded {type(self).__name__} must have the field {missing[0]!r}")
        return self


def is_record(info: ValidationInfo) -> bool:
    """Return True if JSON, or an object with the context RECORDED, is validated, and not what a caller constructs."""
    return info.mode == "json" or bool(info.context and info.context.get("recorded"))


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


def _name_or_uri(uri: str) -> str:
    try:
        return artifact_name(uri)
    except ValueError:
        return uri


def artifact_uri(name: str) -> str:
    """The URI of the artifact with this name, relative to the workspace."""
    return f"file://artifacts/{artifact_name(name)}"
