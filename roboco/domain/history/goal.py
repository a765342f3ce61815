"""Goal: an outcome that a user requests, and that an agent achieves by calling the goal's tool with it."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from roboco.domain.builtin_tools import GOAL_PREFIX
from roboco.domain.schema import InputModel, RecordModel

MAX_GOALS = 5
"""The largest number of goals of one message."""


class Goal(InputModel):
    """A goal as a message declares it."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")]
    description: Annotated[str, Field(min_length=1, max_length=4000)]
    outcome: Annotated[dict[str, JsonValue], Field(alias="schema")] = {"type": "object"}
    """The JSON Schema of the outcome, which is an object."""


class GoalState(RecordModel):
    """The state of a goal of the newest message that declared goals."""

    name: str
    description: str = ""
    outcome: Annotated[dict[str, Any], Field(alias="schema")] = {}
    status: Literal["open", "achieved"] = "open"
    call_id: str | None = None
    """The call that achieved the goal, or None."""

    @property
    def tool_name(self) -> str:
        """Return the name of the tool by which an agent achieves the goal."""
        return f"{GOAL_PREFIX}{self.name}"


def reminder(goals: list[str]) -> str:
    """Return the reminder for an agent that stops before its goals are achieved."""
    named = ", ".join(f"{name} (call {GOAL_PREFIX}{name})" for name in goals)
    return f"The work is not done: these goals are still open: {named}. Achieve them now."
