"""Submission: a caller's request to start a task."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from roboco.domain.canonical_json import canonical_json, json_bytes, sha256, validated_json, well_formed
from roboco.domain.history.priority import Priority
from roboco.domain.history.start_time import MAX_DELAY_SECONDS
from roboco.domain.ids import check_own_item_id
from roboco.domain.inbox.attachments import Attachments
from roboco.domain.inbox.imported_message import MAX_IMPORTED_BYTES, MAX_IMPORTED_MESSAGES, ImportedMessage
from roboco.domain.notification import MAX_TARGETS, NotifyTarget
from roboco.domain.schema import CallerId, InputModel
from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.errors import UsageError

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
