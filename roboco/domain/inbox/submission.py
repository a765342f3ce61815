"""Submission: what a caller asks for when it submits a task."""

from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from roboco.domain.canonical_json import canonical, checked_json, sha256, well_formed
from roboco.domain.history.priority import Priority
from roboco.domain.history.start_time import LONGEST
from roboco.domain.inbox.attachments import Brought
from roboco.domain.notification import MOST, Notify
from roboco.domain.schema import Declared
from roboco.domain.team.team import MAX_PROMPT
from roboco.errors import UsageError

D = TypeVar("D", bound=Declared)
MAX_CONTEXT = 64 * 1024
"""The largest context, in characters of its JSON."""

_TOLD = 20
"""How many mistakes are told."""


class Submission(Brought):
    """The arguments of `roboco.submit`: `team` is the name of a team or the object of a team file.

    `model` names the team's profile for agents that name none themselves; `title` is for people. The task begins at
    `eta` (ISO 8601 with a zone), or `countdown` seconds after it was submitted. `notify` says who is told when the task
    has ended, or waits.
    """

    model_config = ConfigDict(strict=True)

    task_id: str
    team: str | dict[str, JsonValue]
    prompt: Annotated[str, Field(min_length=1)]
    context: dict[str, JsonValue] = {}
    agent: str | None = None
    model: str | None = None
    title: Annotated[str | None, Field(max_length=200)] = None
    eta: Annotated[str | None, Field(max_length=64)] = None
    countdown: Annotated[float | None, Field(ge=0, le=LONGEST, strict=False)] = None
    priority: Priority = "normal"
    notify: Annotated[list[Notify], Field(max_length=MOST)] = []

    def digest(self) -> str:
        """A digest of what the task is to do; the same submission again has the same one."""
        brought = self.metadata() | ({} if self.title is None else {"title": self.title})
        wished = self.model_dump(include={"artifacts", "eta", "countdown", "priority"}, exclude_defaults=True)
        brought |= wished
        return sha256(canonical([self.prompt, self.context, self.agent, *([brought] if brought else [])]))


def read_submission(arguments: dict[str, Any]) -> Submission:
    """The submission that the arguments make; UsageError names everything that is wrong."""
    submission = read_arguments(Submission, arguments)
    submission.check()
    if not submission.prompt.strip():
        raise UsageError("prompt: is empty, say what the team is to do")
    if len(submission.prompt) > MAX_PROMPT:
        raise UsageError(
            f"prompt: has {len(submission.prompt)} characters, at most {MAX_PROMPT} are possible; "
            "store large inputs elsewhere and name them in the prompt"
        )
    if (size := len(canonical(submission.context))) > MAX_CONTEXT:
        raise UsageError(f"context: has {size} characters of JSON, at most {MAX_CONTEXT} are possible")
    return submission


def read_arguments(kind: type[D], arguments: dict[str, Any]) -> D:
    """The request that the arguments make; UsageError names everything that is wrong."""
    clean = {name: _json(name, value) for name, value in arguments.items()}
    try:
        return kind.model_validate(clean)
    except ValidationError as error:
        told = [_told(dict(detail), kind) for detail in error.errors(include_url=False)[:_TOLD]]
        more = [f"and {error.error_count() - _TOLD} mistakes more"] if error.error_count() > _TOLD else []
        raise UsageError("; ".join(told + more)) from error


def read_message(text: object, name: str = "message") -> str:
    """The text of a message to a task; UsageError if it is no text, empty or too long."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{name}: must be a text that is not empty (found {str(text)[:60]!r})")
    if len(text) > MAX_PROMPT:
        raise UsageError(f"{name}: has {len(text)} characters, at most {MAX_PROMPT} are possible")
    return well_formed(text)


def read_result(result: object, name: str = "result", most: int = MAX_CONTEXT) -> Any:
    """A tool call's result that somebody outside gives; UsageError if it is no JSON or too long."""
    clean = _json(name, result)
    if (size := len(canonical(clean))) > most:
        raise UsageError(f"{name}: has {size} characters of JSON, at most {most} are possible")
    return clean


def _json(name: str, value: object) -> Any:
    try:
        return checked_json(value)
    except ValueError as error:
        raise UsageError(f"{name}: is not JSON: {error}") from error


def _told(detail: dict[str, Any], kind: type[Declared]) -> str:
    where = ".".join(str(key) for key in detail["loc"] if key not in ("str", "dict[str,json-or-python]"))
    if detail["type"] == "missing":
        return f"{where}: is missing"
    if detail["type"] == "extra_forbidden":
        fields = sorted(kind.model_fields, key=lambda name: name in Brought.model_fields)
        possible = f", possible are {', '.join(fields)}" if len(detail["loc"]) == 1 else ""
        return f"{where[:80]}: no such argument{possible}"
    shown = repr(detail["input"])
    return f"{where}: {detail['msg']} (found {shown[:60]})"
