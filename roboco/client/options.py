"""Options: keyword arguments of methods of the client, such as `run`, `send`, `tasks`, `usage` and `bulk`."""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from roboco.domain.status import Priority, TaskStatus
from roboco.domain.team.team import Team


class MessageOptions(TypedDict, total=False):
    """The caller of a message, and its attachments."""

    by: str | None
    """The identity of the caller, such as the id of a key: up to 200 printable characters that the history shows."""

    goals: list[dict[str, Any]]
    """Goals to reach: objects with name, description and schema."""
    client_tools: Sequence[dict[str, Any] | BaseModel]
    """Tools that the client runs itself: objects with name, description and input_schema."""
    client_context: dict[str, Any] | BaseModel
    """The user's view, such as the document that is open. The agents read it; it changes nothing else."""
    answer_form: dict[str, Any]
    """The form of the answer: an object with schema, calls and instructions."""
    scope: dict[str, Any] | BaseModel
    """Values for tools, such as a window of time. Each call that a worker runs gets them, until a message has others.
    Roboco never enforces them."""
    state: dict[str, Any]
    """Values of the task's state, which prompts, conditions and tools see. None removes a value."""
    artifacts: list[str]
    """Names of files that were stored with the task before."""


class AnswerOptions(TypedDict, total=False):
    """The caller of an answer to a call of a client tool, and what goes with it."""

    by: str | None
    """The identity of the caller, as of a message."""
    runtime_ms: int
    """The milliseconds for which the tool has run."""
    answer_form: dict[str, Any]
    """The form of the team's answer that follows, in place of that of the message."""


class SubmitOptions(MessageOptions, total=False):
    """Options of a new task."""

    task_id: str | None
    """The task's id. The same id with the same content again is the same task."""
    tenant: str | None
    """The task's tenant: its id is then TENANT:ID. A client with ROBOCO_TENANT allows only its own."""
    item_id: str | None
    """The id of its message, which its step keeps: the same task id with another one is refused."""
    context: dict[str, Any] | None
    """Values for the templates of the prompts, as `context.KEY`."""
    agent: str | None
    """The agent that acts first."""
    model: str | None
    """The model profile of agents that name none."""
    title: str | None
    """The task's title, for people."""
    files: Sequence[Path]
    """Files to store with the task before it is submitted; its first message refers to them."""
    eta: datetime | str | None
    """The time at which the task starts, with a time zone."""
    countdown: float | None
    """Seconds after which the task starts."""
    priority: Priority
    """The priority: high, normal or low."""
    history: Sequence[dict[str, Any] | BaseModel]
    """Earlier messages, which become the first steps: objects with role (user or assistant), text, and the agent; or
    steps, by the names of any document."""
    conversation: bool
    """True to wait for a message, in `user_turn`, where the task would complete."""
    notify: list[dict[str, Any]]
    """Targets to notify when the task has ended, or waits; see roboco/docs/notifications.md."""


class LimitOptions(TypedDict, total=False):
    """Limits that replace those of a task; see `Limits` for each of them."""

    max_steps: int
    max_tokens: int
    max_tokens_in: int
    max_tokens_out: int
    max_seconds: float
    max_calls: int
    max_cost: float
    agents: dict[str, dict[str, Any]]
    tools: dict[str, dict[str, Any]]


class ForkOptions(MessageOptions, total=False):
    """Options of a fork."""

    task_id: str | None
    """The id of the new task. The same id with the same content again is the same fork."""
    item_id: str | None
    """The id of its message, which its step keeps; by default one that derives from the id of the task."""
    agent: str | None
    """The agent that answers the message."""
    model: str | None
    """The model profile of agents that name none."""


class TaskFilterOptions(TypedDict, total=False):
    """Conditions on the tasks of a list. A task is listed if it meets all of them."""

    status: TaskStatus | str | Sequence[TaskStatus | str] | None
    """One or more statuses, or the groups `open`, `waiting` and `ended`."""
    tenant: str | None
    """The tenant; "" for tasks without one. A client with ROBOCO_TENANT allows only its own."""
    team: str | Sequence[str] | None
    """The name of the team, or the names of some."""
    since: datetime | None
    """The earliest time of the last change of the status, with a time zone."""
    until: datetime | None
    """The latest time of the last change of the status, with a time zone."""
    text: str | None
    """A part of the title, in upper or lower case."""
    what_if: bool | None
    """True for runs of `what_if` alone, and False to leave them out."""


class UsageOptions(TypedDict, total=False):
    """Conditions on a report of usage. A day is one in UTC."""

    since: date | None
    """The first day; by default 29 days before today."""
    until: date | None
    """The last day; by default today."""
    tenant: str | None
    """The tenant; "" for tasks without one. A client with ROBOCO_TENANT allows only its own."""
    team: str | Sequence[str] | None
    """The name of the team, or the names of some."""
    all_tasks: bool
    """True to read all tasks of the workspace, also those that have left the task index."""


class BulkOptions(TaskFilterOptions, total=False):
    """The tasks and the content of a bulk control."""

    all_tasks: bool
    """True if the control may reach all tasks: without a condition it is refused otherwise."""
    reason: str
    """Why tasks are stopped or retried, or calls approved or denied; their histories keep it."""
    limits: LimitOptions
    """The new limits, for the controls `limits` and `retry`."""
    tool: str | None
    """The tool whose calls are decided, for `approve`, `deny`, `answer` and `resolve`; by default all tools."""
    result: Any
    """The result of each call, for `answer` and `resolve`."""
    error: str | None
    """Why the calls have no result, for `answer`."""
    declined: bool
    """True if the client refuses to run the calls, for `answer`."""
    happened: bool
    """Whether the calls had their effect, for `resolve`."""
    message: str | None
    """The message that each task gets, for `send`, or each new task, for `fork`."""
    agent: str | None
    """The agent that answers the message."""
    if_busy: Literal["queue", "interrupt", "reject"] | None
    """The treatment of a message while agents or tools run, for `send`."""
    new_team: Team | str | Path | None
    """The team of the new tasks, for `fork`; by default that of each task."""
    model: str | None
    """The model profile of agents that name none, for `fork`."""
    by: str | None
    """The identity of the caller; the histories show it."""
    bulk_id: str | None
    """The id of an earlier run to resume, with its `until`: no task gets its item twice."""
    rate: float
    """Tasks a second at most; 50 by default."""


class ErasureOptions(TypedDict, total=False):
    """Options of the erasure of a task."""

    reason: str
    """Why the task is erased; the receipt keeps it."""
    stop: bool
    """True to stop an open task first."""
    forks: Literal["refuse", "keep", "erase"]
    """The treatment of forks, whose histories contain steps of the task: by default the erasure is refused."""
    by: str | None
    """The identity of the caller, for the receipt."""


class KeyOptions(TypedDict, total=False):
    """Options of a new key of the HTTP gateway; see `AccessKey` for each of them."""

    name: str
    """The purpose or the owner, for people."""
    tenant: str | None
    """The tenant whose tasks the key reaches; without it all tasks."""
    scopes: Sequence[str] | None
    """The kinds of requests: submit, read, control, approve, teams, notify, priority, operate.
    By default the first four."""
    teams: Sequence[str] | None
    """The names of the teams that the key may use; without it all."""
    utility_model: str | None
    """The profile that answers the side requests of its chat front end, in teams that have one of this name."""
    limits: dict[str, Any]
    """Limits, as `CallerLimits` names them."""
    expires_at: datetime | None
    """The time from which the key is refused, with a time zone."""
