"""Tools that a worker process can describe and run."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from roboco.domain.decision.action import Route
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.history.state import History
from roboco.domain.history.step import checked_changes
from roboco.domain.ids import tenant_of
from roboco.domain.team.team import Agent, Team
from roboco.domain.team.tool_listing import Listing
from roboco.domain.team.tool_spec import ToolDeclaration
from roboco.errors import UsageError
from roboco.ports.file import File

Listings = Mapping[str, Listing]
"""The listings that a turn needs, by server."""


@dataclass(frozen=True)
class MissingListing:
    """A missing listing that a turn needs."""

    server: str
    seconds: float
    """Seconds for which the turn is deferred."""
    reason: str


@dataclass(frozen=True)
class TaskOwner:
    """Whose token an MCP server may get for a task."""

    tenant: str = ""
    user: str | None = None
    """The caller that created the task."""


def _not_here(name: str) -> NoReturn:
    """Refuse to return a file or a credential: the context is of no tools worker."""
    raise UsageError(f"{name!r}: only a tools worker reads files of tasks and credentials")


@dataclass(frozen=True)
class ToolContext:
    """The context of a tool call."""

    task_id: str
    agent: str
    call_id: str
    idempotency_key: str
    """The same key in every attempt at the call."""
    attempt: int
    scope: dict[str, Any] | None = None
    """The data that tools may use, from the newest message with a scope. None is no restriction."""
    step_id: str = ""
    """The step with the call."""
    cancellation: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    user: str | None = None
    """The caller that created the task."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """The `context` of the task's submission."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The values that the task shares, as they were when the call began."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """For a function that is an agent: the conversation as chat completions show it, within its `context`."""
    earlier: tuple[Mapping[str, Any], ...] = ()
    """The arguments of the calls of the same tool before this one in the step. They may run at the same time."""
    state_changes: dict[str, Any] = field(default_factory=dict, compare=False)
    """The values that the call changes."""
    memory: str = ""
    """The path of the memory that the task uses, or "" if it has none."""

    read_artifact: Callable[[str], File] = field(default=_not_here, compare=False, repr=False)
    """Reads a file of the task."""
    ask_credential: Callable[[str], str] = field(default=_not_here, compare=False, repr=False)
    """Returns a credential of the tenant."""

    def artifact(self, name: str) -> File:
        """Return the file of the task with this name or URI, with its `data`, of up to 64 MiB.

        Raise UsageError, which names the files, if there is none.
        """
        return self.read_artifact(name)

    def credential(self, name: str) -> str:
        """Return the secret of this name that the function of ROBOCO_CREDENTIALS has for the tenant of the task.

        Ask for it when it is needed: the function may have changed it. Raise UsageError if there is none, which the
        agent reads. Raise TransientError if there may be one later: a pure or idempotent call then runs again.
        """
        return self.ask_credential(name)

    @property
    def tenant(self) -> str:
        """Return the tenant of the task, or "" if it has none."""
        return tenant_of(self.task_id)

    @property
    def caller(self) -> str | None:
        """Return the caller that created the task."""
        return self.user

    def update_state(self, **values: Any) -> None:
        """Change values of the task's state when the call succeeds. None removes a value.

        Prompts, conditions and later calls see them. Of parallel calls the last one of the step counts. Raise
        ValueError for values without JSON, and for a state of more than 32 KiB.
        """
        changes = checked_changes(self.state, self.state_changes | values)
        self.state_changes.update(changes)

    @property
    def cancelled(self) -> bool:
        """Return True if the result is no longer needed.

        Either the user has interrupted or stopped the task, or another worker has taken over the call. A tool that
        checks it can end early; any other tool ends at its timeout.
        """
        return self.cancellation.is_set()


class Toolbox(Protocol):
    """The tools of this process."""

    def describe(self, team: Team, agent: Agent, listings: Listings) -> tuple[dict[str, Any], ...]:
        """Return the agent's own tools in the format of chat completions.

        Raise NotRunnable if this process lacks one. The tools of MCP servers are described from the listings; no server
        is started or called.
        """

    def list_tools(self, team: Team, server: str, owner: TaskOwner) -> Listing:
        """Return the tools that this server of the team lists now, or the error. Only tools workers call this.

        It starts the server, or connects to it. Raise UsageError if the operator does not allow the server.
        """

    def check(self, spec: ToolDeclaration | None) -> None:
        """Raise NotRunnable if this process lacks the function of the tool. `spec` is None for a built-in tool."""

    def schema_error(self, schema: dict[str, Any]) -> str:
        """Return why the JSON Schema of an object is refused, or "" if it is accepted."""

    def args_error(self, schema: dict[str, Any], args: dict[str, Any]) -> str:
        """Return why the arguments do not fit the JSON Schema, or "" if they fit."""

    def call_error(self, team: Team, call: ToolCall, listings: Listings) -> str:
        """Return why the arguments of a call of the team's own tool do not fit, or "" if they fit or are not known.

        The tool does not run, and no server is called.
        """

    def run(self, team: Team, call: ToolCall, spec: ToolDeclaration | None, context: ToolContext) -> ToolOutcome:
        """Run the call of a built-in (`spec` None) or another tool. Errors are returned in the outcome."""

    def offload_large(self, outcome: ToolOutcome, context: ToolContext) -> ToolOutcome:
        """Return the outcome. Its media, and a result that is too large for the history, become files of the task.

        The same outcome leads to the same files.
        """

    def truncate_large(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome without its media. A result that is too large for the history is truncated."""

    def verify(self, call: ToolCall, spec: ToolDeclaration, context: ToolContext) -> ToolOutcome | None:
        """Return the outcome of a lost call from the tool's `verify`, or None without `verify`, or if it fails."""

    def output_schema(self, agent: Agent) -> dict[str, Any]:
        """Return the JSON Schema of the answer of an agent that has a type of output.

        Raise NotRunnable if this process lacks a module that it names.
        """

    def checked_output(self, agent: Agent, value: Any) -> Any:
        """Return the value of an agent's answer as JSON, as its type and its own check make it.

        Raise ValueError with the reason if it does not fit.
        """

    def router(self, name: str) -> Callable[[Team, History], Route]:
        """Return the user's router with this name, "package.module:function".

        Raise UsageError if there is none.
        """
