"""TaskExplanation: who acted in a task and why, and why it ended or for which cause it waits."""

from dataclasses import dataclass, field, replace

from roboco.client.task import Task
from roboco.domain.recorded.explain import StepExplanation, current_status, explain
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.tool_listing import ToolDifference


@dataclass(frozen=True)
class TaskExplanation:
    """The explanation of a task."""

    task_id: str
    team: str
    status: TaskStatus
    reason: str
    steps: tuple[StepExplanation, ...]
    """The explanation of each agent's step, or of the one step that was asked for."""
    end: str
    """Why the task ended or waits, or its next action."""
    missing_worker: str
    """Why no worker processes the open task, or ""."""
    changes: list[ToolDifference]
    """The differences of changed tools whose open calls a person must approve or deny."""
    left_out: list[str] = field(default_factory=list)
    """The tools that MCP servers list and agents cannot call, each with the reason."""


def explanation_of(task: Task, step: str | None = None) -> TaskExplanation:
    """Return who acted in a task and why, and why it ended or waits; of one step, by its position or id, or of all.

    Cost: the history; of one step, the steps around it, and in few cases those before it.
    Raises UsageError if there is no such step, and TransientError if a server does not answer.
    """
    past = task.recorded() if step is None else task.recorded_on_demand()
    missing = "" if past.status.ended else task.missing_worker()
    found = explain_task(task.task_id, past, step, missing, task.tool_changes())
    return replace(found, left_out=task.left_out_tools())


def explain_task(
    task_id: str, past: RecordedTask, step: str | None, missing_worker: str, changes: list[ToolDifference]
) -> TaskExplanation:
    """Return the explanation of a recorded task, or of one step, by its position or id.

    Raises UsageError if there is no such step.
    """
    waits = f"it waits ({past.status}): {missing_worker}"
    end = waits if missing_worker else current_status(past)
    return TaskExplanation(
        task_id, past.team.name, past.status, past.reason, explain(past, step), end, missing_worker, changes
    )
