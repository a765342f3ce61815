"""Brought: what a caller's message brings beside its text: goals, client tools, what the user looks at."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from roboco.domain.canonical_json import canonical
from roboco.domain.history.goal import MAX_GOALS, Goal
from roboco.domain.inbox.client_tool import MAX_CLIENT_TOOLS, ClientTool
from roboco.domain.schema import Declared
from roboco.errors import UsageError

MAX_ARTIFACTS = 20
"""How many files a message may bring."""
MAX_BROUGHT = 64 * 1024
"""The largest that a message brings, in characters of its JSON."""


class Scope(BaseModel):
    """What tools are to look at: a window of time in nanoseconds since 1970, and whatever the shop's tools know."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    start_time: int | None = None
    end_time: int | None = None


class Brought(Declared):
    """What a message brings.

    `goals` are what the agents are to achieve; `client_tools` are tools that the client runs. `client_context` is what
    the user is looking at: it is shown to the agents, and changes nothing else. `scope` says what tools are to look at:
    each call that workers run gets it, until a message brings another one, and Roboco never enforces it.
    `artifacts` names files that were stored with the task before.
    """

    model_config = ConfigDict(strict=True)

    goals: Annotated[list[Goal], Field(max_length=MAX_GOALS)] = []
    client_tools: Annotated[list[ClientTool], Field(max_length=MAX_CLIENT_TOOLS)] = []
    client_context: dict[str, JsonValue] = {}
    scope: Scope | None = None
    artifacts: Annotated[list[str], Field(max_length=MAX_ARTIFACTS)] = []

    def metadata(self) -> dict[str, Any]:
        """What stands of it in the metadata of the message's step."""
        whole = self.model_dump(
            mode="json", by_alias=True, include=set(Brought.model_fields) - {"artifacts"}, exclude_none=True
        )
        return {name: value for name, value in whole.items() if value}

    def check(self) -> None:
        """UsageError if names come twice, or if it is too large."""
        for where, names in (("goals", [goal.name for goal in self.goals]), ("client_tools", self.tool_names)):
            if twice := _twice(names):
                raise UsageError(f"{where}: {twice!r} is there twice, names must differ")
        if (size := len(canonical(self.metadata()))) > MAX_BROUGHT:
            raise UsageError(
                f"goals, client_tools, client_context and scope: have {size} characters of JSON, at most {MAX_BROUGHT} "
                "are possible"
            )

    @property
    def tool_names(self) -> list[str]:
        """The names of the client tools."""
        return [tool.name for tool in self.client_tools]

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """All JSON Schemas, by where they stand."""
        goals = {f"goals.{goal.name}.schema": goal.outcome for goal in self.goals}
        return goals | {f"client_tools.{tool.name}.input_schema": tool.input_schema for tool in self.client_tools}


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
