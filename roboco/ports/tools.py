"""Tools: what a process can describe and run."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from roboco.domain.listing import Listing
from roboco.domain.outcome import Outcome
from roboco.domain.part import ToolCall
from roboco.domain.router import Router
from roboco.domain.team import Agent, Team
from roboco.domain.tool_spec import AnyTool

Listings = Mapping[str, Listing]
"""The listings that a turn needs, by server."""


@dataclass(frozen=True)
class ListOrder:
    """The order to a tools worker to list the tools of a server for the task."""

    task_id: str
    server: str


@dataclass(frozen=True)
class Unlisted:
    """A listing that a turn needs is not there yet: for how many seconds the turn is given back, and why."""

    seconds: float
    reason: str


@dataclass(frozen=True)
class CallContext:
    """What a tool may know of its call; the same `idempotency_key` on every attempt. `step_id` is the step that calls.

    `cancelled` turns true when nobody waits for the result any more: the user has interrupted or stopped the task, or
    another worker has taken the call over. A tool that looks may end early; one that does not is ended at its time-out.
    `scope` is what the user wants tools to look at, as the newest message that had one says it; None for everything.
    """

    task_id: str
    agent: str
    call_id: str
    idempotency_key: str
    attempt: int
    scope: dict[str, Any] | None = None
    step_id: str = ""
    cancellation: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self.cancellation.is_set()


class Toolbox(Protocol):
    """The tools that this process can describe and run."""

    def describe(self, team: Team, agent: Agent, listings: Listings) -> tuple[dict[str, Any], ...]:
        """The agent's own tools as the chat completions protocol has them; UsageError if one cannot be had.

        Those of MCP servers as the listings say; no server is started or asked.
        """

    def list_tools(self, team: Team, server: str) -> Listing:
        """The tools that this server of the team lists now, or the error; UsageError if it is not allowed here.

        For tools workers alone: it starts the server, or connects to it.
        """

    def schema_mistake(self, schema: dict[str, Any]) -> str:
        """What is wrong with the JSON Schema of an object; "" if nothing is."""

    def mistake(self, schema: dict[str, Any], args: dict[str, Any]) -> str:
        """What the JSON Schema finds wrong with the arguments; "" if nothing."""

    def run(self, team: Team, call: ToolCall, spec: AnyTool | None, context: CallContext) -> Outcome:
        """Run the call of a built-in (`spec` None) or another tool; whatever goes wrong is in the outcome."""

    def keep(self, outcome: Outcome, context: CallContext) -> Outcome:
        """The outcome, with a result that is too large for the history in a file of the task."""

    def cut(self, outcome: Outcome) -> Outcome:
        """The outcome, with a result that is too large for the history cut to its beginning."""

    def verify(self, call: ToolCall, spec: AnyTool, context: CallContext) -> Outcome | None:
        """What a lost call came to, as the tool's own `verify` finds out; None if it has none, or it fails."""

    def router(self, name: str) -> Router:
        """The router of the user's own with this name, "package.module:function"; UsageError if there is none."""
