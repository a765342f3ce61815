"""Submission: a caller's request to start a task, and the first steps that follow from it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from roboco.domain.canonical_json import canonical_json, json_bytes, sha256, validated_json, well_formed
from roboco.domain.history.lineage import Parent
from roboco.domain.history.part import Artifact, ArtifactPart, Part, TextPart, with_step_id
from roboco.domain.history.state import CONVERSATION
from roboco.domain.history.step import (
    ETA,
    IMPORTED,
    MAX_DELAY_SECONDS,
    PRIORITY,
    PROMPT,
    USER,
    TaskStep,
    requested_start_time,
    step_text,
)
from roboco.domain.ids import check_own_item_id, step_id_at
from roboco.domain.inbox.attachments import Attachments
from roboco.domain.notification import MAX_TARGETS, TARGET_COUNT_KEY, NotifyTarget
from roboco.domain.schema import CallerId, InputModel
from roboco.domain.status import Priority
from roboco.domain.team.collaboration import Sequential
from roboco.domain.team.team import MAX_PROMPT_CHARS, Team
from roboco.errors import UsageError

MAX_IMPORTED_MESSAGES = 1000
"""The largest number of imported messages of a task."""
MAX_IMPORTED_BYTES = 4 * 1024 * 1024
"""The largest size of all imported messages of a task, in bytes of their JSON."""


class ImportedMessage(InputModel):
    """A message of a user, or of an agent of the team."""

    model_config = ConfigDict(strict=True)

    role: Literal["user", "assistant"]
    text: Annotated[str, Field(max_length=MAX_PROMPT_CHARS, validation_alias=AliasChoices("text", "content"))]
    """The text; `content` is another name for it."""
    agent: str | None = None
    """The agent that wrote it; without one, the agent that would speak last in the team."""

    @model_validator(mode="before")
    @classmethod
    def _of_step(cls, given: Any) -> Any:
        """Read a step, by the names of any document, as a message: its calls, results and files become text."""
        if not isinstance(given, dict) or "parts" not in given:
            return given
        try:
            step = TaskStep.model_validate(given)
        except ValidationError as error:
            raise ValueError(f"is not a step: {error.errors()[0]['msg']}") from error
        results = [
            f"(error: {one.error})" if one.error else f"(result: {canonical_json(one.result)})" for one in step.results
        ]
        message = {"text": "\n".join(filter(None, [*results, step_text(step)]))}
        return message | ({"role": "assistant", "agent": step.agent_name} if step.by_agent else {"role": "user"})

    @field_validator("text")
    @classmethod
    def _is_not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("is empty; leave the message out")
        return text

    @model_validator(mode="after")
    def _only_agents_are_named(self) -> Self:
        if self.role == "user" and self.agent is not None:
            raise ValueError("agent: only a message with the role 'assistant' has an agent")
        return self


D = TypeVar("D", bound=InputModel)
MAX_MESSAGE_BYTES = MAX_PROMPT_CHARS
"""The largest prompt or message, in bytes of its JSON: a control character has six."""
MAX_CONTEXT_BYTES = 64 * 1024
"""The largest context, in bytes of its JSON."""

_MAX_MISTAKES = 20
"""The largest number of mistakes in one error."""


class Submission(Attachments):
    """The arguments of `roboco.submit`."""

    model_config = ConfigDict(strict=True)

    task_id: str
    team: str | dict[str, JsonValue]
    """The name of a team, or the object of a team file."""
    prompt: Annotated[str, Field(min_length=1)]
    context: dict[str, JsonValue] = {}
    agent: str | None = None
    model: str | None = None
    """The team's profile for agents that name none, or None for the default."""
    title: Annotated[str | None, Field(max_length=200)] = None
    """The title for people."""
    eta: Annotated[str | None, Field(max_length=64)] = None
    """The start time in ISO 8601 with a zone."""
    countdown: Annotated[float | None, Field(ge=0, le=MAX_DELAY_SECONDS, strict=False)] = None
    """The delay of the start, in seconds after the submission."""
    priority: Priority = "normal"
    notify: Annotated[list[NotifyTarget], Field(max_length=MAX_TARGETS)] = []
    """The targets that are notified when the task has ended, or waits. Push receivers may follow an empty list."""
    history: Annotated[list[ImportedMessage], Field(max_length=MAX_IMPORTED_MESSAGES)] = []
    """Earlier messages, which become the first steps."""
    conversation: bool = False
    """True if the task waits for a message where it would complete."""
    item_id: str | None = None
    """The id of the message, which its step keeps."""
    by: CallerId | None = None
    """The identity of the caller. It is no part of the content."""

    def digest(self) -> str:
        """Return a digest of the task's content. The same submission has the same digest."""
        content = self.metadata() | ({} if self.title is None else {"title": self.title})
        options = self.model_dump(
            include={"artifacts", "eta", "countdown", "priority", "conversation", "item_id"}, exclude_defaults=True
        )
        content |= options
        if self.history:
            content["history"] = [message.model_dump(exclude_none=True) for message in self.history]
        return sha256(canonical_json([self.prompt, self.context, self.agent, *([content] if content else [])]))


def parse_submission(arguments: dict[str, Any]) -> Submission:
    """Return the submission of the arguments.

    Raise UsageError, which lists every mistake.
    """
    submission = parse_arguments(Submission, arguments)
    submission.check()
    if not submission.prompt.strip():
        raise UsageError("prompt: is empty; describe the work for the team")
    if submission.item_id is not None:
        check_own_item_id(submission.item_id)
    _check_text(submission.prompt, "prompt", "; store large inputs elsewhere and name them in the prompt")
    if (size := json_bytes(submission.context)) > MAX_CONTEXT_BYTES:
        raise UsageError(f"context: has {size} bytes of JSON, at most {MAX_CONTEXT_BYTES} are possible")
    _check_history(submission.history)
    return submission


def _check_history(messages: list[ImportedMessage]) -> None:
    """Raise UsageError if the imported messages are too large together."""
    size = json_bytes([message.model_dump() for message in messages])
    if size > MAX_IMPORTED_BYTES:
        raise UsageError(f"history: has {size} bytes of JSON, at most {MAX_IMPORTED_BYTES} are possible; shorten it")


def parse_arguments(kind: type[D], arguments: dict[str, Any]) -> D:
    """Return the request of the arguments.

    Raise UsageError, which lists every mistake.
    """
    clean = {name: _validated(name, value) for name, value in arguments.items()}
    try:
        return kind.model_validate(clean)
    except ValidationError as error:
        mistakes = [_mistake_of(dict(detail), kind) for detail in error.errors(include_url=False)[:_MAX_MISTAKES]]
        more = (
            [f"and {error.error_count() - _MAX_MISTAKES} mistakes more"] if error.error_count() > _MAX_MISTAKES else []
        )
        raise UsageError("; ".join(mistakes + more)) from error


def parse_message(text: object, name: str = "message") -> str:
    """Return the text of a message to a task.

    Raise UsageError if it is not a text, empty or too long.
    """
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{name}: must be a text that is not empty (found {str(text)[:60]!r})")
    if len(text) <= MAX_MESSAGE_BYTES:
        text = well_formed(text)
    _check_text(text, name)
    return text


def _check_text(text: str, name: str, remedy: str = "") -> None:
    """Raise UsageError if the text is too long. A much too long one is not encoded."""
    size = len(text) if len(text) > MAX_MESSAGE_BYTES else json_bytes(text) - 2
    if size > MAX_MESSAGE_BYTES:
        raise UsageError(f"{name}: has {size} bytes or more, at most {MAX_MESSAGE_BYTES} are possible{remedy}")


def parse_result(result: object, name: str = "result", most: int = MAX_CONTEXT_BYTES) -> Any:
    """Return a tool call's result from outside.

    Raise UsageError if it is not JSON or too long.
    """
    clean = _validated(name, result)
    if (size := json_bytes(clean)) > most:
        raise UsageError(f"{name}: has {size} bytes of JSON, at most {most} are possible")
    return clean


def _validated(name: str, value: object) -> Any:
    try:
        return validated_json(_plain(value))
    except ValueError as error:
        raise UsageError(f"{name}: is not JSON: {error}") from error


def _plain(value: object) -> object:
    """Return a model, or the models in a list, as plain data."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json", exclude_none=True) if isinstance(value, BaseModel) else value


def _mistake_of(detail: dict[str, Any], kind: type[InputModel]) -> str:
    where = ".".join(str(key) for key in detail["loc"] if key not in ("str", "dict[str,json-or-python]"))
    if detail["type"] == "missing":
        return f"{where}: is missing"
    if detail["type"] == "extra_forbidden":
        fields = sorted(kind.model_fields, key=lambda name: name in Attachments.model_fields)
        possible = f", possible are {', '.join(fields)}" if len(detail["loc"]) == 1 else ""
        return f"{where[:80]}: no such argument{possible}"
    shown = repr(detail["input"])
    return f"{where}: {detail['msg']} (found {shown[:60]})"


def first_steps(
    submission: Submission, team: Team, parent: Parent | None, artifacts: tuple[Artifact, ...], now: datetime
) -> tuple[TaskStep, ...]:
    """Return the first steps of the task, sealed: the imported messages, and then the prompt.

    The first of them has the metadata of the whole task, and the last one those of the prompt. Raise UsageError if the
    start time is wrong, or if the team lacks an agent of an imported message.
    """
    files = (ArtifactPart(artifact=artifact) for artifact in artifacts)
    contents: list[_Content] = [_imported(team, index, one) for index, one in enumerate(submission.history)]
    contents.append(_Content(USER, (TextPart(text=submission.prompt), *files), _message_metadata(submission)))
    steps: list[TaskStep] = []
    for seq, content in enumerate(contents):
        step_id = step_id_at(submission.task_id, seq)
        step = TaskStep(
            step_id=step_id,
            seq=seq,
            parent_id=None if parent is None or seq > 0 else parent.step_id,
            agent_name=content.agent_name,
            parts=with_step_id(content.parts, step_id),
            created_at=now,
            metadata=content.metadata | (_task_metadata(submission, parent, now) if seq == 0 else {}),
        )
        steps.append(step.sealed(steps[-1].digest if steps else ""))
    return tuple(steps)


@dataclass(frozen=True)
class _Content:
    """The content of a first step."""

    agent_name: str
    parts: tuple[Part, ...]
    metadata: dict[str, Any]


def _imported(team: Team, index: int, message: ImportedMessage) -> _Content:
    name = USER if message.role == "user" else message.agent or _last_speaker(team)
    if name != USER and not team.has_agent(name):
        possible = ", ".join(agent.name for agent in team.agents)
        raise UsageError(
            f"history.{index}.agent: no agent {name[:80]!r} in team {team.name!r}, possible are {possible}"
        )
    return _Content(name, (TextPart(text=message.text),), {IMPORTED: True})


def _last_speaker(team: Team) -> str:
    """Return the agent that would answer a message after the imported ones, as in a task that waits for its user."""
    return team.agents[-1].name if isinstance(team.collaboration_model, Sequential) else team.initial_agent


def _task_metadata(submission: Submission, parent: Parent | None, now: datetime) -> dict[str, Any]:
    """Return the metadata of the whole task. Fields that are not set are left out."""
    begins = requested_start_time(submission.eta, submission.countdown, now)
    optional: dict[str, Any] = {
        "title": submission.title,
        "by": submission.by,
        PRIORITY: None if submission.priority == "normal" else submission.priority,
        ETA: None if begins is None else begins.isoformat(),
        "parent": None if parent is None else parent.model_dump(mode="json"),
        TARGET_COUNT_KEY: len(submission.notify) if "notify" in submission.model_fields_set else None,
        CONVERSATION: submission.conversation or None,
        PROMPT: submission.prompt if submission.history else None,
    }
    required = {"submission": submission.digest(), "context": submission.context}
    return required | {name: value for name, value in optional.items() if value is not None}


def _message_metadata(submission: Submission) -> dict[str, Any]:
    """Return the metadata of the prompt. Fields that are not set are left out."""
    optional = {"agent": submission.agent, "by": submission.by, "item_id": submission.item_id}
    return submission.metadata() | {name: value for name, value in optional.items() if value is not None}
