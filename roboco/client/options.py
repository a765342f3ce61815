"""Wishes: what may be said beside a prompt or message."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from roboco.domain.history.priority import Priority


class Said(TypedDict, total=False):
    """What may be said beside a message; see `Brought` for what each means.

    `goals`: objects with name, description and schema. `client_tools`: objects with name, description and input_schema.
    `artifacts`: names of files that were stored with the task before.
    """

    goals: list[dict[str, Any]]
    client_tools: list[dict[str, Any]]
    client_context: dict[str, Any]
    scope: dict[str, Any]
    artifacts: list[str]


class Wished(Said, total=False):
    """What may be said beside the prompt of a new task.

    `task_id`: the same id with the same content again is the same task. `tenant` says whose task it is: its id is then
    TENANT:ID. A client with ROBOCO_TENANT submits for that tenant alone. `context` is there for the prompts' templates.
    `agent` names who acts first, `model` the profile of agents that name none; `title` is for people.
    `files` are stored with the task before it is submitted, for its first message to bring. The task begins at `eta`
    (with a time zone), or in `countdown` seconds. `priority`: high, normal or low. `notify` are objects that say who is
    told when the task has ended, or waits: see `Notify`.
    """

    task_id: str | None
    tenant: str | None
    context: dict[str, Any] | None
    agent: str | None
    model: str | None
    title: str | None
    files: Sequence[Path]
    eta: datetime | str | None
    countdown: float | None
    priority: Priority
    notify: list[dict[str, Any]]


class Raised(TypedDict, total=False):
    """Limits that take the place of a task's; see `Limits` for what each means."""

    max_steps: int
    max_tokens: int
    max_tokens_in: int
    max_tokens_out: int
    max_seconds: float
    max_calls: int
    max_cost: float
    agents: dict[str, dict[str, Any]]
    tools: dict[str, dict[str, Any]]


class Forked(Said, total=False):
    """What may be said of a fork. `task_id`: the same id with the same content again is the same fork.

    `agent` names who answers the message, `model` the profile of agents that name none.
    """

    task_id: str | None
    agent: str | None
    model: str | None
