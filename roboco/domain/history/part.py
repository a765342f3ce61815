"""Parts: the contents of a step, and the outcome of a tool call, whose result and artifacts become parts."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_serializer, model_validator

from roboco.domain.canonical_json import well_formed_json
from roboco.domain.schema import RecordModel

MAX_NAME_CHARS = 128
"""The longest name of an artifact, in characters."""
ARTIFACT_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}")
_URI = re.compile(r"file://(?:\./)?artifacts/(.+)")


def artifact_name(uri_or_name: str) -> str:
    """Return the name of an artifact from its name or URI.

    Raise ValueError if it could leave the workspace.
    """
    match = _URI.fullmatch(uri_or_name)
    name = match.group(1) if match else uri_or_name
    if not ARTIFACT_NAME.fullmatch(name):
        raise ValueError(
            f"artifact {uri_or_name[:120]!r} is not allowed: a name has 1 to 128 letters, digits, '_', '-' "
            "and '.', no folders, and does not start with '.'"
        )
    return name


def artifact_uri(name: str) -> str:
    """Return the URI of the artifact with this name, relative to the workspace."""
    return f"file://artifacts/{artifact_name(name)}"


MAX_MEDIA_FILES = 20
"""The largest number of files of one result that are stored."""


@dataclass(frozen=True)
class Media:
    """A file in a result that is a list of parts."""

    part: int
    """The index of the part, from 0."""
    kind: str
    """"image", "audio", "resource" or "file"."""
    mime_type: str
    """The MIME type according to the server; the bytes may contradict it."""
    data: bytes
    name: str = ""
    """The name of a file that has one."""


class ToolCall(RecordModel):
    """An agent's request to run a tool."""

    id: str = Field(default_factory=lambda: f"tc_{uuid.uuid4().hex}")
    """The id of the call. Without one, a constructor generates a new one."""
    tool_name: str
    args: dict[str, Any]

    @model_validator(mode="after")
    def _check_recorded(self, info: ValidationInfo) -> Self:
        return self.require_recorded(info, "id")


class ToolResult(RecordModel):
    """The result of a tool call."""

    tool_call_id: str
    result: Any = None
    """Any JSON."""
    error: str | None = None
    is_error: bool = Field(default_factory=lambda given: given["error"] is not None)
    """True if the call failed. By default, an `error` text makes the result an error."""
    runtime_ms: int = 0
    """Wall-clock milliseconds."""

    @field_validator("result", "error")
    @classmethod
    def _well_formed(cls, value: Any) -> Any:
        return well_formed_json(value)


class Artifact(RecordModel):
    """A file of the workspace."""

    uri: str
    artifact_id: str = Field(default_factory=lambda given: _name_or_uri(given["uri"]))
    """By default the name in the `uri`."""
    mime_type: str
    size: int = 0
    """The size in bytes."""
    sha256: str = ""
    """The digest in hexadecimal digits."""
    base: str = ""
    """The name under which the file was written."""
    version: int = 1
    """The version among the files with the same `base`, from 1."""
    step_id: str = ""
    """The step that wrote the file: the step with the tool call, or the message that the file is attached to."""

    @property
    def name(self) -> str:
        """Return the name below `artifacts/`."""
        return artifact_name(self.uri)


class TextPart(RecordModel):
    """Text of an agent or a user."""

    type: Literal["text"] = "text"
    text: str


class ToolCallPart(RecordModel):
    """One tool call."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCall


class ToolResultPart(RecordModel):
    """The result of one tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: ToolResult


class ArtifactPart(RecordModel):
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
        """Return the id of the artifact."""
        return self.artifact.artifact_id

    @property
    def uri(self) -> str:
        """Return the URI of the artifact."""
        return self.artifact.uri

    @property
    def mime_type(self) -> str:
        """Return the MIME type of the artifact."""
        return self.artifact.mime_type


class ErrorPart(RecordModel):
    """The reason for a failure."""

    type: Literal["error"] = "error"
    message: str
    """The reason for people."""
    code: str
    """The reason for programs."""


class UnknownPart(RecordModel):
    """A part of another kind, as a newer release writes it. It is kept as it is, and prompts leave it out."""

    unknown_type: str = Field(validation_alias="type")

    @property
    def type(self) -> Literal["unknown"]:
        """Return "unknown", which is no type of a known part."""
        return "unknown"

    @model_serializer
    def _as_it_is(self) -> dict[str, Any]:
        return {"type": self.unknown_type} | (self.model_extra or {})

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, Any]:
        kind = {"type": "string", "not": {"enum": list(_KINDS)}}
        return {"title": cls.__name__, "type": "object", "required": ["type"], "properties": {"type": kind}}


_KINDS = ("text", "tool_call", "tool_result", "artifact", "error")


def _kind_of(part: Any) -> str:
    found = (
        part.get("type", "artifact" if "uri" in part else "") if isinstance(part, dict) else getattr(part, "type", "")
    )
    return next((kind for kind in _KINDS if kind == found), "unknown")


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[ToolCallPart, Tag("tool_call")]
    | Annotated[ToolResultPart, Tag("tool_result")]
    | Annotated[ArtifactPart, Tag("artifact")]
    | Annotated[ErrorPart, Tag("error")]
    | Annotated[UnknownPart, Tag("unknown")],
    Discriminator(_kind_of),
]
"""A part of a step: a text, a tool call, a tool result, a file, an error, or a kind that this release does not know."""


def with_step_id(parts: Sequence[Part], step_id: str) -> tuple[Part, ...]:
    """Return the parts of a message's step, with its id in the files that are attached to the message."""
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


class ToolOutcome(RecordModel):
    """The outcome of one tool call."""

    result: ToolResult
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts that are listed beside the result."""
    unknown: Literal["", "tell", "ask"] = ""
    """The policy if it is unknown whether the call had its effect, else "".

    With the default policy the agent reads that; with "ask" a person resolves it before the agent continues.
    """
    changed: bool = False
    """True if the call did not run because its tool changed during the task. A person must approve the change."""
    not_run: bool = False
    """True in a run of `what-if` if the outcome is a recorded one, or a refusal: it costs nothing."""
    state: dict[str, Any] = {}
    """The values of the task's state that the tool changes."""
    answer: dict[str, Any] = {}
    """The answer of a function that is an agent: `text`, `output`, and `calls` with `name` and `args`."""
    failed_before: tuple[str, ...] = ()
    """The exceptions after which the tool ran again within the call, oldest first."""
    usage: dict[str, int | float] = {}
    """The usage of a sub-task: `tokens_in`, `tokens_out`, `cost`."""
    media: Annotated[tuple[Media, ...], Field(exclude=True, repr=False)] = ()
    """The files in the result until they are stored; they never leave the process."""


def failed_outcome(call_id: str, message: str, runtime_ms: int = 0) -> ToolOutcome:
    """Return an outcome with an error for the agent."""
    result = ToolResult(tool_call_id=call_id, is_error=True, error=message, runtime_ms=runtime_ms)
    return ToolOutcome(result=result)


def successful_outcome(call: ToolCall, result: object, runtime_ms: int = 0) -> ToolOutcome:
    """Return an outcome with a result and no artifacts."""
    return ToolOutcome(result=ToolResult(tool_call_id=call.id, result=result, runtime_ms=runtime_ms))


def unknown_outcome(call_id: str, why: str, on_unknown: Literal["tell", "ask"], runtime_ms: int = 0) -> ToolOutcome:
    """Return the outcome of a call whose effect is unknown."""
    message = (
        f"outcome unknown: {why}, and the call may or may not have had its effect; it is not repeated. "
        "Find out what happened before you try again"
    )
    return failed_outcome(call_id, message, runtime_ms).model_copy(update={"unknown": on_unknown})


def changed_tool_outcome(call: ToolCall, why: str) -> ToolOutcome:
    """Return the outcome of a call that did not run, because a person must approve the change of its tool first."""
    message = f"{why} since the task began; the call did not run, and a person must approve the change"
    return failed_outcome(call.id, message).model_copy(update={"unknown": "ask", "changed": True})


def not_executed_outcome(call_id: str) -> ToolOutcome:
    """Return the outcome of a call that was lost and certainly did not have its effect."""
    return failed_outcome(call_id, "the call was lost before it had its effect; call again if it is still wanted")
