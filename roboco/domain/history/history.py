"""History: the view of a task's past for routers and `decide`. Its cost does not grow with the number of steps."""

from dataclasses import dataclass

from roboco.domain.history.state import TaskState
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep

COORDINATOR_TAIL_LENGTH = 64
"""The number of newest steps that the coordinator loads. Routers see no more steps of an agent's current run."""


@dataclass(frozen=True)
class History:
    """The state of all steps, and the newest steps."""

    state: TaskState
    tail: tuple[TaskStep, ...]
    """The newest steps in order; at least the last one."""

    @property
    def last(self) -> TaskStep:
        """Return the newest step."""
        return self.tail[-1]

    @property
    def current_run(self) -> tuple[TaskStep, ...]:
        """Return the current run: the steps since the last agent took over, with their results and the user's messages.

        It is empty if the last step is a message of the user.
        """
        if self.last.agent_name == USER:
            return ()
        agent = self.state.last_agent
        for index in range(len(self.tail) - 1, -1, -1):
            step = self.tail[index]
            if step.agent_name not in (agent, TOOL_EXECUTOR, USER):
                return self.tail[index + 1 :]
            if step.agent_name == agent and not _continues(step):
                return self.tail[index:]
        return self.tail


def _continues(step: TaskStep) -> bool:
    return (step.metadata.get("routing") or {}).get("rule") == AFTER_RESULTS


AFTER_RESULTS = "results"
"""The rule by which an agent that called tools acts again."""
