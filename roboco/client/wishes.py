"""Wishes: what may be said beside a prompt or message."""

from typing import Any, TypedDict


class Said(TypedDict, total=False):
    """What may be said beside a message; see `Brought` for what each means.

    `goals`: objects with name, description and schema. `client_tools`: objects with name, description and input_schema.
    """

    goals: list[dict[str, Any]]
    client_tools: list[dict[str, Any]]
    client_context: dict[str, Any]
    scope: dict[str, Any]


class Wished(Said, total=False):
    """What may be said beside the prompt of a new task.

    `task_id`: the same id with the same content again is the same task. `context` is there for the prompts' templates.
    `agent` names who acts first, `model` the profile of agents that name none; `title` is for people.
    """

    task_id: str | None
    context: dict[str, Any] | None
    agent: str | None
    model: str | None
    title: str | None


class Forked(Said, total=False):
    """What may be said of a fork. `task_id`: the same id with the same content again is the same fork.

    `agent` names who answers the message, `model` the profile of agents that name none.
    """

    task_id: str | None
    agent: str | None
    model: str | None
