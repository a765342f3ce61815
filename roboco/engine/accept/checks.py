"""Checks of a request before it is accepted: its files and JSON Schemas, its limits, and the room for a new task."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.part import Artifact, artifact_name
from roboco.domain.inbox.attachments import Attachments
from roboco.domain.limits import LimitOverrides
from roboco.domain.paths import artifact_info_path, artifact_path, summary_path
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import Overloaded, TransientError, UsageError

MAX_MEMORY_SHARE = 0.8
"""The part of its memory that Redis may use when a task is accepted. The rest is for running tasks and controls."""


def check_capacity(engine: Engine, task_id: str) -> None:
    """Raise Overloaded if too many tasks wait, or Redis is too full, for a new task. A repetition is not a new task."""
    if (reason := _overload(engine, task_id)) and engine.workspace.files.size(summary_path(task_id)) is None:
        raise Overloaded(f"task {task_id!r} is not accepted: {reason}; submit it again later")


def _overload(engine: Engine, task_id: str) -> str:
    """Return the reason against a new task, or "". Tasks that wait for their start time count as waiting turns."""
    if (share := engine.tasks.task_store.memory_share(task_id)) >= MAX_MEMORY_SHARE:
        return (
            f"Redis uses {share:.0%} of its memory, and from {MAX_MEMORY_SHARE:.0%} on the rest is for tasks that run: "
            "raise its `maxmemory`, or stop tasks"
        )
    max_queued = engine.policy.max_queued
    if max_queued is None:
        return ""
    waiting = max(engine.services.dispatcher.backlog(task_id), engine.tasks.task_index.count_queued())
    if waiting < max_queued:
        return ""
    return f"{waiting} turns wait for workers or their start time, at most {max_queued} may (ROBOCO_MAX_QUEUED)"


def check_limits(workspace: WorkspaceRecords, task_id: str, limits: LimitOverrides) -> None:
    """Raise UsageError if the task cannot have these limits: its team lacks a named agent or tool."""
    if "max_steps" in limits.overrides() and limits.max_steps is None:
        raise UsageError("limits.max_steps: cannot be removed; pass a number")
    team = workspace.frozen_teams.get(task_id)
    for name in limits.agents:
        team.check_agent(name)
    tools = {tool for agent in team.agents for tool in team.tools_of(agent)}
    tools |= {DELEGATE for agent in team.agents if agent.sub_teams}
    named = sorted(set(limits.tools) - tools)
    if unknown := [tool for tool in named if not any(team.may_call(agent, tool) for agent in team.agents)]:
        possible = ", ".join(sorted(tools)) or "none: the team has no tools"
        raise UsageError(f"limits.tools: no tool {unknown[0]!r} in team {team.name!r}, possible are {possible}")


def check_attachments(engine: Engine, task_id: str, attachments: Attachments) -> tuple[Artifact, ...]:
    """Return the attached artifacts. Raise UsageError if an artifact is not stored, or if a JSON Schema is invalid."""
    for where, schema in attachments.schemas.items():
        if mistake := engine.services.toolbox.schema_error(schema):
            raise UsageError(f"{where}: {mistake}")
    return tuple(_artifact(engine.workspace, task_id, name) for name in attachments.artifacts)


def _artifact(workspace: WorkspaceRecords, task_id: str, name: str) -> Artifact:
    try:
        info = workspace.files.get(artifact_info_path(task_id, artifact_name(name)))
    except ValueError as error:
        raise UsageError(f"artifacts: {error}") from error
    if info is None or workspace.files.size(artifact_path(task_id, artifact_name(name))) is None:
        raise UsageError(f"artifacts: no file {name[:120]!r} is stored with task {task_id!r}; upload it first")
    return Artifact.model_validate_json(info)


_log = logging.getLogger(__name__)


@contextmanager
def falling_back_to_sweeper(task_id: str) -> Iterator[None]:
    """Log a failure of Redis or the broker instead of raising it: the sweeper finds the marker and starts the task."""
    try:
        yield
    except TransientError as error:
        _log.warning("task %s is accepted, and the sweeper will start it: %s", task_id, error)
