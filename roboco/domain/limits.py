"""Limits on what a task, its agents and its tools may use."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from roboco.domain.schema import InputModel, Name, ToolName

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]
_MAX_NAME_CHARS = 64
RAISE_LIMIT_HINT = "raise the limit to go on"
"""The end of the reason of a task that is paused at a limit."""


class UsageLimits(InputModel):
    """Limits of usage. None is no limit."""

    max_steps: Count | None = None
    """Model calls of an agent, or all steps of a task."""
    max_tokens: Count | None = None
    """Input and output tokens together."""
    max_tokens_in: Count | None = None
    max_tokens_out: Count | None = None
    max_seconds: Amount | None = None
    max_calls: Count | None = None
    """Tool calls."""
    max_cost: Amount | None = None
    """Money in the currency of the prices."""


class ToolLimits(InputModel):
    """Limits of a tool's usage in a task. A call beyond them is refused. None is no limit."""

    max_calls: Count | None = None
    max_seconds: Amount | None = None
    """Seconds of all calls together. A running call may use its whole timeout, even if fewer seconds are left."""
    max_cost: Amount | None = None
    """The cost of all calls, by the tool's price."""


def _check_keys(value: Any) -> Any:
    """Refuse a key that is too long for a name, before its value is checked: each mistake there would have a copy."""
    if isinstance(value, dict) and any(len(str(key)) > _MAX_NAME_CHARS for key in value):
        raise ValueError(f"a name has at most {_MAX_NAME_CHARS} characters")
    return value


class LimitOverrides(UsageLimits):
    """Limits that replace those of a task. Only the fields that are set apply; None removes a limit."""

    agents: Annotated[dict[Name, UsageLimits], BeforeValidator(_check_keys)] = {}
    tools: Annotated[dict[ToolName, ToolLimits], BeforeValidator(_check_keys)] = {}

    def overrides(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON."""
        return self.model_dump(mode="json", exclude_unset=True)


class Limits(LimitOverrides):
    """The limits of a task.

    `max_steps` counts all its steps, and `max_seconds` starts when the task is submitted or forked.
    """

    max_steps: Count = 100
    at_limit: Literal["end", "pause", "wrap_up"] = "end"
    """The effect of a limit: end the task as failed, pause it until the limit is raised, or wrap up in one last turn.

    The last turn is the turn of the agent that was next, and is not limited.
    """
    goal_prompts: Annotated[int, Field(ge=0, le=20)] = 2
    """How often after each message agents are reminded of open goals."""
    max_repeats: Annotated[int, Field(ge=0)] = 10
    """How often since the last message the same call may return the same result. 0 is no limit.

    A task that reaches this limit or `max_handoffs` is in a loop, and fails.
    """
    max_handoffs: Annotated[int, Field(ge=0)] = 8
    """How many consecutive hand-offs may happen without work in between. 0 is no limit."""
    caps: UsageLimits | None = None
    """The highest limits that a change of limits may set. A run of `what-if` has some, since it may share a change."""

    def agent_limits(self, name: str) -> UsageLimits:
        """Return the limits of the agent."""
        return self.agents.get(name, UsageLimits())

    def with_overrides(self, overrides: dict[str, Any]) -> "Limits":
        """Return the limits with these overrides. `max_steps` cannot be removed."""
        if not overrides:
            return self
        both = deep_merge(self.model_dump(mode="json"), overrides)
        limits = Limits.model_validate({name: value for name, value in both.items() if value is not None})
        return limits if self.caps is None else limits.model_copy(update=limits.lowered_to(self.caps))

    def lowered_to(self, caps: UsageLimits) -> dict[str, Any]:
        """Return the limits that the caps lower, by name."""
        own = {name: (getattr(self, name), cap) for name, cap in caps if cap is not None}
        return {name: cap for name, (value, cap) in own.items() if value is None or value > cap}


def deep_merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the old values updated with the new ones. Nested objects are merged in the same way."""
    both = {
        name: deep_merge(old[name], value) if isinstance(value, dict) and isinstance(old.get(name), dict) else value
        for name, value in new.items()
    }
    return {**old, **both}
