"""TaskResult: the status, text, usage, goals and files of a task that has ended or waits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from roboco.domain.history.part import Artifact
from roboco.domain.history.step import OUTPUT, STATE, TaskStep, changed_state, last_answer
from roboco.domain.session.goal import SessionGoal, goals_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.usage import Usage
from roboco.errors import TaskFailed

_REMEDIES = {
    TaskStatus.FAILED: "remove the cause, then call Task.retry(), or continue in a new task with Task.fork()",
    TaskStatus.CANCELLED: "Task.fork() continues from its last step, in a new task",
    TaskStatus.GOALS_FAILED: "TaskResult.goals holds the open goals; Task.fork(message=...) tries them again",
    TaskStatus.PAUSED: "remove the cause, or raise the limit with Task.set_limits(...), then call Task.resume()",
    TaskStatus.APPROVAL: "it continues after Task.approve(...), Task.deny(...) or Task.resolve(...)",
    TaskStatus.CLIENT_TOOL_TURN: "it continues after Task.answer(...) for each open call of a client tool",
}
"""The next call of a caller, by the status without an answer."""


@dataclass(frozen=True)
class TaskResult:
    """The result of a task that has ended or waits."""

    task_id: str
    """The id of the task."""
    status: TaskStatus
    """The status in which the task ended or waits."""
    reason: str
    """The cause of the status, for people."""
    text: str
    """The newest text of an agent; empty if no agent has written one."""
    output: Any
    """The typed output of the agent that wrote the text; None if it has none."""
    outputs: dict[str, Any]
    """The newest typed output of each agent that has given one."""
    state: dict[str, Any]
    """The values that the task shares."""
    usage: Usage
    """Steps, tokens, calls, cost, and the seconds of models and tools, of the whole task."""
    goals: tuple[SessionGoal, ...]
    """All goals of the user's messages, in their order."""
    files: tuple[Artifact, ...]
    """The files that the steps name, also those of the user, in the order of the steps."""
    turn_failed: bool = False
    """True if a conversation waits for its user because a turn has failed. `reason` is the error; `text` is older."""

    @property
    def cost(self) -> float:
        """The cost of the whole task, in the currency of the model profiles' prices."""
        return self.usage.cost

    def raise_for_status(self) -> Self:
        """Return the result if the task is `completed`, or waits for its user after an answer. Else raise TaskFailed.

        The error names the status, the reason and the next call. A task that is paused, or that waits for an approval
        or a client tool, has not failed, but its text is no answer yet.
        """
        remedy = "send a message, which the team answers" if self.turn_failed else _REMEDIES.get(self.status)
        if remedy is None:
            return self
        raise TaskFailed(self.task_id, str(self.status), self.reason, remedy)


def result_of(summary: TaskSummary, steps: Sequence[TaskStep]) -> TaskResult:
    """Return the result of a task with this summary and history."""
    answer = last_answer(steps)
    return TaskResult(
        task_id=summary.task_id,
        status=summary.status,
        reason=summary.reason,
        text="" if answer is None else answer.text,
        output=None if answer is None else answer.metadata.get(OUTPUT),
        state=state_of(steps),
        outputs={step.agent_name: step.metadata[OUTPUT] for step in steps if step.has_output},
        usage=usage_of_task(summary),
        goals=tuple(goals_of(steps)),
        files=tuple({artifact.uri: artifact for step in steps for artifact in step.artifacts}.values()),
        turn_failed=summary.status is TaskStatus.USER_TURN and steps[-1].ends_task,
    )


def state_of(steps: Iterable[TaskStep]) -> dict[str, Any]:
    """Return the values that the task shares after these steps."""
    values: dict[str, Any] = {}
    for step in steps:
        values = changed_state(values, step.metadata.get(STATE))
    return values


def usage_of_task(summary: TaskSummary) -> Usage:
    """Return the usage of the whole task."""
    spent = [*summary.agents.values(), *summary.tools.values()]
    return Usage(
        steps=summary.steps,
        tokens_in=summary.tokens_in,
        tokens_out=summary.tokens_out,
        seconds=round(sum(one.seconds for one in spent), 3),
        calls=sum(tool.calls for tool in summary.tools.values()),
        cost=summary.cost,
    )
