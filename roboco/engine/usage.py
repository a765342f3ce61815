"""usage: the tokens and the cost of a turn's replies, also of unfinished ones, and the usage of a whole task.

A model reports the usage of a whole reply. Where it reports none, because the reply ended early, its worker died or the
turn was cancelled, the usage is an estimate from the request and the received text. The next committed step of the task
is charged for the unfinished replies of earlier attempts at the same turn.

The usage of a task by agent, model, tool and day:

    usage.json ─► complete? ─► usage                                            1 request
       └── no ─► steps after it ─► fold ─► usage ─► usage.json (replace)        + those steps, + 1 request

The history is the record, and `usage.json` is derived from it: it holds the usage of the first steps, and the digest of
the last of them. It is replaced only if no other reader has written it since. If it is lost, cannot be read or belongs
to a history that was restored to an earlier step, the whole history is read again.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.domain.paths import usage_path
from roboco.domain.task_usage import TaskUsage, parse_task_usage
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.tokens import estimate_tokens
from roboco.domain.usage import UNFINISHED_USAGE, ModelUsage, Usage
from roboco.engine.engine import Services, WorkspaceRecords
from roboco.errors import CorruptHistory, ModelError, TransientError
from roboco.ports.snapshot import Snapshot
from roboco.ports.telemetry import COST, TOKENS, TURN_SECONDS, OperationSpan
from roboco.ports.workspace import VersionedFile


def unfinished_usage(team: Team, task: Snapshot) -> Usage:
    """Return the estimated usage of unfinished replies to the pending turn."""
    used = task.attempt.unfinished_usage
    if used.tokens_in + used.tokens_out == 0:
        return Usage()
    cost = team.profile(team.agent(task.position.agent)).cost(ModelUsage(used.tokens_in, used.tokens_out))
    return Usage(tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=cost)


def unfinished_usage_metadata(team: Team, task: Snapshot) -> dict[str, object]:
    """Return the metadata that charges the next step for unfinished replies; empty if there are none."""
    spent = unfinished_usage(team, task)
    if not spent.tokens:
        return {}
    cost = {"cost": round(spent.cost, 9)} if spent.cost else {}
    used = {"agent": task.position.agent, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out}
    return {UNFINISHED_USAGE: used | cost}


def usage_at(profile: ModelProfile, used: ModelUsage) -> Usage:
    """Return the usage of a model call, with its cost by this profile."""
    return Usage(tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=profile.cost(used))


def failed_usage(error: ModelError, tokens_in: int = 0, texts: Sequence[str] = ()) -> ModelUsage:
    """Return the usage of the requests of a call that failed, as far as the provider has received them."""
    used = ModelUsage(error.tokens_in, error.tokens_out, estimated=bool(error.tokens_in or error.tokens_out))
    return or_estimate(used, tokens_in, texts) if texts else used


def or_estimate(used: ModelUsage, tokens_in: int, texts: Sequence[str]) -> ModelUsage:
    """Return the usage of a reply that ended early, or an estimate from its prompt and texts if it has none."""
    if used.tokens_in or used.tokens_out:
        return used
    return ModelUsage(tokens_in, estimate_tokens("".join(texts)), estimated=True)


def record_turn_metrics(services: Services, doing: OperationSpan, model: str, step: TaskStep, seconds: float) -> None:
    """Record the duration and the usage of the turn, with the summaries that were made for it."""
    usage: dict[str, Any] = step.metadata.get("usage") or {}
    tokens_in, tokens_out = int(usage.get("tokens_in", 0)), int(usage.get("tokens_out", 0))
    note = services.telemetry.record
    note(TURN_SECONDS, seconds, model)
    note(TOKENS, tokens_in, "in", model)
    note(TOKENS, tokens_out, "out", model)
    note(COST, float(usage.get("cost", 0.0)), model)
    doing.annotate(tokens_in=tokens_in, tokens_out=tokens_out)
    if step.error is not None:
        doing.annotate(error=step.error.code or "error")
    elif step.metadata.get("interrupted"):
        doing.annotate(finish_reason="interrupted")


_log = logging.getLogger(__name__)

STORE_INTERVAL = 64
"""Steps of an open task that are read again with each report, at most, before its usage is stored."""


def task_usage(workspace: WorkspaceRecords, task_id: str, steps_at_end: int | None) -> TaskUsage:
    """Return the usage of the steps that are committed now. `steps_at_end` is their number if the task has ended.

    Cost: one request to the workspace for an ended task whose usage is stored, else also a read of the steps that are
    not counted yet. The usage is stored for an ended task, and for an open one after each 64 steps.
    """
    file = workspace.files.get_versioned(usage_path(task_id))
    stored = None if file is None else parse_task_usage(file.data)
    if stored is not None and stored.task_id == task_id and stored.steps == steps_at_end:
        return stored
    before = stored or TaskUsage(task_id=task_id)
    new_steps = None if before.task_id != task_id or not before.steps else _steps_after(workspace, before)
    if new_steps is None:
        before, new_steps = TaskUsage(task_id=task_id), workspace.histories.read(task_id)
    usage = before.after(new_steps)
    if steps_at_end is not None and usage.steps < steps_at_end:
        raise CorruptHistory(
            f"the history of task {task_id!r} has {usage.steps} steps, and its summary {steps_at_end}: "
            "restore the history from a backup or an older version"
        )
    has_ended = steps_at_end is not None and usage.steps >= steps_at_end
    if usage != stored and (has_ended or usage.steps - before.steps >= STORE_INTERVAL):
        _store(workspace, usage, file)
    return usage


def _steps_after(workspace: WorkspaceRecords, before: TaskUsage) -> Iterator[TaskStep] | None:
    """Return the steps that follow those of the usage, or None if the history does not begin with these any more."""
    steps = workspace.histories.read(before.task_id, before.steps - 1)
    last = next(steps, None)
    return None if last is None or last.digest != before.last_digest else steps


def _store(workspace: WorkspaceRecords, usage: TaskUsage, file: VersionedFile | None) -> None:
    """Store the usage, unless another reader has stored one meanwhile. If it fails, the next report reads more."""
    version = None if file is None else file.version
    try:
        workspace.files.replace(usage_path(usage.task_id), usage.model_dump_json().encode(), version)
    except TransientError as error:
        _log.warning("the usage of task %s is not stored; the next report counts it again: %s", usage.task_id, error)
