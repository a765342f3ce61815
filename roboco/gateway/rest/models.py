"""models: the bodies of requests and responses that only HTTP has. The others are those of the client library."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, field_validator

from roboco.client.team_details import TeamDetails
from roboco.domain.history.part import Artifact, ToolCall
from roboco.domain.history.step import MAX_DELAY_SECONDS, TaskStep
from roboco.domain.inbox.attachments import AnswerForm, Attachments
from roboco.domain.inbox.submission import MAX_IMPORTED_MESSAGES, ImportedMessage
from roboco.domain.limits import LimitOverrides
from roboco.domain.notification import MAX_TARGETS, NotifyTarget
from roboco.domain.schema import InputModel, RecordModel
from roboco.domain.status import Priority
from roboco.domain.task_entry import TaskEntry
from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.domain.team.tool_listing import ToolDifference
from roboco.domain.team.what_if import MAX_RUNS
from roboco.gateway.bodies.mistakes import FewMistakes
from roboco.gateway.rest.parameters import ITEM_PATTERN, TASK_PATTERN


def _integer(value: object) -> object:
    """Return the integer of a number without a fraction: JSON has one kind of numbers, and 3.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_CHARS)]
Reason = Annotated[str, Field(max_length=4000)]
TaskName = Annotated[str, Field(max_length=161, pattern=TASK_PATTERN)]
"""The id of a task; that of a tenant's task may begin with the tenant and a colon."""
ItemName = Annotated[str, Field(pattern=ITEM_PATTERN)]
TenantName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]


class ProblemMistake(RecordModel):
    """A mistake of a request."""

    at: str
    """The place in the request."""
    problem: str


class ProblemDocument(RecordModel):
    """The reason why a request failed, as RFC 9457 describes it."""

    type: str
    title: str
    """The short name of this kind of problem."""
    status: int
    """The HTTP status."""
    detail: str
    """The mistake in this request."""
    code: str
    """The kind of problem, for programs: not_found, ended, conflict, invalid, forbidden, overloaded, unavailable ..."""
    remedy: str
    """The action with which the caller can correct it."""
    mistakes: list[ProblemMistake] = []
    """The mistakes of a request that is not valid, at most 20."""


class StrictInput(FewMistakes, InputModel):
    """A body whose values are not converted: "5" is no number."""

    model_config = ConfigDict(strict=True)


class ItemRequest(StrictInput):
    """A control without further content."""

    item_id: ItemName | None = None
    """The id of the item. Leave it out with Idempotency-Key."""


class _Message(FewMistakes, Attachments):
    """A body with the attachments of a message, whose values are not converted."""

    model_config = ConfigDict(strict=True)

    @field_validator("answer_form")
    @classmethod
    def _leaves_sampling_to_the_team(cls, value: AnswerForm | None) -> AnswerForm | None:
        """Refuse parameters of models: an operator lets those of OpenAI's API pass."""
        if value is not None and value.sampling is not None:
            raise ValueError("sampling: set temperature and the like in a model profile of the team")
        return value


class NewTask(_Message):
    """A task to create."""

    team: str | dict[str, JsonValue]
    """The name of a team, as GET /v1/teams lists it. The object of a team file needs the scope `teams`."""
    prompt: Text
    """The work for the team."""
    task_id: TaskName | None = None
    """The id of the task. The same id with the same content is the same task. Leave it out with Idempotency-Key."""
    tenant: TenantName | None = None
    """The tenant of the task. A key of a tenant creates tasks of that tenant only."""
    context: dict[str, JsonValue] | None = None
    """Values for the prompts; GET /v1/teams/{name} has their JSON Schema."""
    agent: str | None = None
    """The agent that acts first."""
    model: str | None = None
    """The model profile of agents that name none."""
    title: Annotated[str | None, Field(max_length=200)] = None
    """The title for people. By default it is the first line of the prompt."""
    eta: Annotated[str | None, Field(max_length=64)] = None
    """The start time in ISO 8601 with a zone."""
    countdown: Annotated[float | None, Field(ge=0, le=MAX_DELAY_SECONDS, strict=False)] = None
    """The delay of the start, in seconds."""
    priority: Priority | None = None
    """The priority: high, normal or low. High needs the scope `priority`."""
    notify: Annotated[list[NotifyTarget] | None, Field(max_length=MAX_TARGETS)] = None
    """Callbacks and webhooks for the end of the task. They need the scope `notify`."""
    conversation: bool | None = None
    """True if the task waits for the user where it would end: the next message continues the same history."""
    history: Annotated[list[ImportedMessage] | None, Field(max_length=MAX_IMPORTED_MESSAGES)] = None
    """Earlier messages, which become the first steps of the task."""


class CreatedTask(RecordModel):
    """A task that was accepted. Workers finish it, whatever happens to this client."""

    task_id: str
    team: str
    created: bool
    """True if this request has created it, and False if it repeats an earlier one."""


class NewMessage(_Message):
    """A message of the user."""

    message: Text
    agent: str | None = None
    """The agent that answers it; by default the team decides."""
    if_busy: Literal["queue", "interrupt", "reject"] | None = None
    """The treatment of the message while agents or tools run; by default that of the team."""
    item_id: ItemName | None = None
    """The id of the message. The same id again is the same message. Leave it out with Idempotency-Key."""


class Interruption(_Message):
    """An interruption of the running work, with or without a message."""

    message: Text | None = None
    """The message of the user that becomes the next step. Without one, the task waits for its user."""
    agent: str | None = None
    """The agent that answers the message."""
    item_id: ItemName | None = None
    """The id of the item. Leave it out with Idempotency-Key."""


class StopRequest(ItemRequest):
    """A request to end a task now."""

    reason: Annotated[str, Field(min_length=1, max_length=4000)] = "stopped by the user"
    """Why; the history keeps it."""


class LimitsRequest(ItemRequest):
    """New limits of a task."""

    limits: LimitOverrides
    """The limits to replace. Those that are left out stay; null removes a limit."""


class TaskRetry(StrictInput):
    """A retry of a failed task."""

    reason: Annotated[str, Field(max_length=4000)] = ""
    """Why the task is retried; the history keeps it."""
    limits: LimitOverrides = LimitOverrides()
    """Limits to replace. A task that has ended at a limit needs a higher one; seconds count from the retry."""
    from_step: Annotated[int, Field(ge=0)] | None = None
    """The position of the last good step, as the caller knows it. Another one is refused with 409: fork the task."""


class ApprovalRequest(StrictInput):
    """The approval of a tool call."""

    args: dict[str, JsonValue] | None = None
    """Arguments that replace all of the call's own."""
    reason: Reason = ""


class DenialRequest(StrictInput):
    """The denial of a tool call."""

    reason: Reason = ""
    """Why; the agent reads it."""


class AnswerRequest(StrictInput):
    """The answer of a client to the call of a client tool."""

    status: Literal["success", "error", "declined"] = "success"
    result: JsonValue = None
    """The result of a successful call: any JSON."""
    error: Reason | None = None
    """Why there is no result."""
    runtime_ms: Annotated[int, Field(ge=0, le=2**53), BeforeValidator(_integer)] = 0


class ResolutionRequest(ItemRequest):
    """A person's decision on a tool call with an unknown outcome."""

    happened: bool
    """True if the call had its effect."""
    result: JsonValue = None
    """The result of the call, if it is known."""


class CallDecision(RecordModel):
    """A tool call that was answered or decided."""

    task_id: str
    call_id: str
    status: Literal["approved", "denied", "answered", "resolved"]


class ForkTask(_Message):
    """A new task with the first steps of another one."""

    seq: Annotated[int, Field(ge=0, le=10**9), BeforeValidator(_integer)] | None = None
    """The position of the last copied step; by default all but the error that ended the task."""
    message: Text | None = None
    """The first message of the new task."""
    agent: str | None = None
    """The agent that answers the message."""
    team: str | dict[str, JsonValue] | None = None
    """Another team: its name, or with the scope `teams` the object of a team file."""
    model: str | None = None
    """The model profile of agents that name none."""
    task_id: TaskName | None = None
    """The id of the new task. Leave it out with Idempotency-Key."""


class NewComparison(StrictInput):
    """Runs that continue a recorded task with another team, model or prompt, and have no effect."""

    seq: Annotated[int, Field(ge=0, le=10**9), BeforeValidator(_integer)] | None = None
    """The position of the last step that the runs share with the task; by default its first message."""
    team: str | dict[str, JsonValue] | None = None
    """Another team: its name, or with the scope `teams` the object of a team file."""
    model: str | None = None
    """The model profile of agents that name none."""
    prompts: Annotated[dict[str, Text], Field(max_length=200)] = {}
    """Other prompts by the names of their agents, with the scope `teams`."""
    runs: Annotated[int, Field(ge=1, le=MAX_RUNS), BeforeValidator(_integer)] = 1
    max_steps: Annotated[int, Field(ge=1), BeforeValidator(_integer)] | None = None
    """The most steps of each run; by default twice those of the task, and at least 20."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """The most cost of each run; by default three times that of the task."""
    max_seconds: Annotated[float, Field(ge=1, le=86_400)] = 600.0
    unrecorded: Literal["run", "refuse"] = "run"
    """Whether pure tools run if the task has no result for their arguments, or are refused as others are."""


class CreatedComparison(RecordModel):
    """Runs that were started. Each is a task."""

    what_if: str
    """The id of the comparison."""
    runs: list[str]
    """The ids of the runs."""


class TeamList(RecordModel):
    """The teams that the caller may use."""

    teams: list[TeamDetails]


class TaskList(RecordModel):
    """A page of tasks, the latest change of a status first. A page may be short, or empty, and have a cursor."""

    tasks: list[TaskEntry]
    cursor: str
    """The cursor of the next page, or "" after the last one."""
    complete: bool
    """False while the list is rebuilt from the workspace: until then tasks may be missing."""


class HistoryPage(RecordModel):
    """Consecutive steps of a history, in the form that the client asks for."""

    steps: list[TaskStep] | list[dict[str, Any]]
    next: int | None
    """The `start` of the next page, or None after the newest step."""


class PendingReport(RecordModel):
    """The calls and limits for which a task waits."""

    task_id: str
    unapproved: list[ToolCall]
    """Calls that a person has to approve or deny."""
    changes: dict[str, ToolDifference]
    """The differences of changed tools, by the ids of the calls."""
    unanswered: list[ToolCall]
    """Calls of client tools without an answer."""
    unknown: list[ToolCall]
    """Calls with an unknown outcome, which a person has to resolve."""
    sub_tasks: dict[str, str]
    """The sub-tasks whose calls are among these, by the ids of the calls. They take an answer, as this task does."""
    at_limit: bool
    """True if the task is paused at a limit."""


class Verification(RecordModel):
    """The comparison of each step of a history with its digest."""

    intact: bool
    steps: int | None = None
    """The number of steps, if they are intact."""
    unfinished_line: bool | None = None
    code: str | None = None
    message: str | None = None
    """The first mistake."""


class FileList(RecordModel):
    """A page of the files of a task, by name."""

    files: list[Artifact]
    next: str | None
    """The `after` of the next page, or None after the last file."""


def given_options(body: BaseModel, *left_out: str) -> dict[str, Any]:
    """Return the options that a body sets, as the client library takes them."""
    return body.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True, exclude={*left_out})
