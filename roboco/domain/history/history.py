"""History: what routers and `decide` see of a task's past, at a cost that does not grow with it."""

from dataclasses import dataclass

from roboco.domain.history.state import TaskState
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep


@dataclass(frozen=True)
class History:
    """The state of all steps and the newest of them: `tail` is in order and holds at least the last one."""

    state: TaskState
    tail: tuple[TaskStep, ...]

    @property
    def last(self) -> TaskStep:
        """The newest step."""
        return self.tail[-1]

    @property
    def visit(self) -> tuple[TaskStep, ...]:
        """The steps since the last agent took over: its own, their results, and what the user said meanwhile.

        Empty if the user spoke last.
        """
        if self.last.agent_name == USER:
            return ()
        agent = self.state.last_agent
        for index in range(len(self.tail) - 1, -1, -1):
            step = self.tail[index]
            if step.agent_name not in (agent, TOOL_EXECUTOR, USER):
                return self.tail[index + 1 :]
            if step.agent_name == agent and not _goes_on(step):
                return self.tail[index:]
        return self.tail


def _goes_on(step: TaskStep) -> bool:
    return (step.metadata.get("routing") or {}).get("rule") == RESULTS_ARE_IN


RESULTS_ARE_IN = "results"
"""The rule by which an agent that called tools acts again."""
