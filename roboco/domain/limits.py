"""Limits: what a task, its agents and its tools may spend."""

from typing import Annotated, Any, Literal

from pydantic import Field

from roboco.domain.schema import Declared, Name, ToolName

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]


class Spending(Declared):
    """What may be spent: model calls or steps, tokens, seconds, tool calls, and money in the currency of the prices.

    `max_tokens` are tokens in and out together. None is no limit.
    """

    max_steps: Count | None = None
    max_tokens: Count | None = None
    max_tokens_in: Count | None = None
    max_tokens_out: Count | None = None
    max_seconds: Amount | None = None
    max_calls: Count | None = None
    max_cost: Amount | None = None


class ToolSpending(Declared):
    """What a tool may spend in a task: calls, seconds that they take together, and what they cost by its price.

    A call beyond that is refused. One that is begun may take its time-out, whatever is left of the seconds.
    """

    max_calls: Count | None = None
    max_seconds: Amount | None = None
    max_cost: Amount | None = None


class RaisedLimits(Spending):
    """Limits that take the place of a task's, as far as they are named; None lifts one."""

    agents: dict[Name, Spending] = {}
    tools: dict[ToolName, ToolSpending] = {}

    def named(self) -> dict[str, Any]:
        """Those that are named, as JSON."""
        return self.model_dump(mode="json", exclude_unset=True)


class Limits(RaisedLimits):
    """What a task may spend: `max_seconds` counts from when it was submitted or forked, `max_steps` all its steps.

    `agents` and `tools` say what each of them may spend of that: for an agent `max_steps` counts its turns, and
    `max_seconds` the time that its model takes. `at_limit`: end the task as failed, pause until the limit is raised, or
    let the agent whose turn it is wrap up in one last turn, which is not limited.
    `goal_prompts`: how often after each message its agents are reminded of goals that are still open.
    `max_repeats`: how often since the last message the same call may have the same result. `max_handoffs`: how many
    hand-offs may follow each other with nothing done in between. A task that reaches them loops, and fails; 0 lets it.
    """

    max_steps: Count = 100
    at_limit: Literal["end", "pause", "wrap_up"] = "end"
    goal_prompts: Annotated[int, Field(ge=0, le=20)] = 2
    max_repeats: Annotated[int, Field(ge=0)] = 10
    max_handoffs: Annotated[int, Field(ge=0)] = 8

    def of_agent(self, name: str) -> Spending:
        """What the agent may spend."""
        return self.agents.get(name, Spending())

    def raised(self, named: dict[str, Any]) -> "Limits":
        """The limits with those that are named in the place of their own; `max_steps` cannot be lifted altogether."""
        both = merged(self.model_dump(mode="json"), named)
        return (
            Limits.model_validate({name: value for name, value in both.items() if value is not None}) if named else self
        )


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old values with the new ones in their place, objects merged in the same way."""
    both = {
        name: merged(old[name], value) if isinstance(value, dict) and isinstance(old.get(name), dict) else value
        for name, value in new.items()
    }
    return {**old, **both}
