"""A toolbox of a test's functions and routers."""

from collections.abc import Callable, Mapping
from typing import Any

from roboco.domain.builtin_tools import BUILTIN_TOOLS
from roboco.domain.decision.router import Router
from roboco.domain.history.part import ToolCall, ToolOutcome, failed_outcome, successful_outcome
from roboco.domain.team.known_tools import known_tools
from roboco.domain.team.team import Agent, Team
from roboco.domain.team.tool_listing import Listing
from roboco.domain.team.tool_spec import AgentFunction, ServerTool, TaskTool, ToolDeclaration, ToolSpec
from roboco.errors import NotRunnable, TransientError, UsageError
from roboco.ports.tools import Listings, TaskOwner, Toolbox, ToolContext
from roboco.schemas.json_schema import schema_error, value_error
from roboco.tools.function_answer import recorded_form

Function = Callable[[dict[str, Any], ToolContext], object]
"""A tool of a test: takes the arguments and the context, and returns JSON or a ToolOutcome."""


class MemoryToolbox(Toolbox):
    """A toolbox of functions by tool name. `runs` holds the contexts of all calls, in order."""

    def __init__(
        self, functions: Mapping[str, Function] | None = None, routers: Mapping[str, Router] | None = None
    ) -> None:
        self.functions = functions or {}
        self.routers = routers or {}
        self.runs: list[ToolContext] = []
        self.servers: dict[str, Listing] = {}
        self.described: list[Listings] = []
        self.missing: set[str] = set()

    def describe(self, team: Team, agent: Agent, listings: Listings) -> tuple[dict[str, Any], ...]:
        names = known_tools(team, agent, listings)
        for name in names:
            self.check(team.tool(name))
            if not isinstance(team.tool(name), ServerTool | TaskTool) and name not in BUILTIN_TOOLS:
                self._function(name)
        self.described.append(listings)
        return tuple({"type": "function", "function": {"name": name}} for name in names)

    def check(self, spec: ToolDeclaration | None) -> None:
        module = spec.function.partition(":")[0] if isinstance(spec, ToolSpec) else ""
        if module in self.missing:
            raise NotRunnable(f"module {module!r} is not in ROBOCO_TOOL_MODULES, which names no modules", module)

    def schema_error(self, schema: dict[str, Any]) -> str:
        return schema_error(schema)

    def args_error(self, schema: dict[str, Any], args: dict[str, Any]) -> str:
        return value_error(schema, args)

    def call_error(self, team: Team, call: ToolCall, listings: Listings) -> str:
        check = self.functions.get(f"check_{call.tool_name}")
        try:
            if check is not None:
                check(call.args, ToolContext("", "", "", "", 1))
        except ValueError as error:
            return str(error)
        return ""

    def output_schema(self, agent: Agent) -> dict[str, Any]:
        return dict(agent.output) if isinstance(agent.output, dict) else {}

    def checked_output(self, agent: Agent, value: Any) -> Any:
        if wrong := value_error(self.output_schema(agent), value):
            raise ValueError(wrong)
        return value

    def list_tools(self, team: Team, server: str, owner: TaskOwner) -> Listing:
        if server == "evil":
            raise UsageError(f"MCP server {server!r} is not allowed on this worker")
        return self.servers.get(server) or Listing(error=f"MCP server {server!r} could not be reached")

    def run(self, team: Team, call: ToolCall, spec: ToolDeclaration | None, context: ToolContext) -> ToolOutcome:
        self.runs.append(context)
        try:
            result = self._function(call.tool_name)(call.args, context)
            if isinstance(spec, AgentFunction):
                answer = recorded_form(team, result, self.checked_output, context)
                result = successful_outcome(call, "answered").model_copy(update={"answer": answer})
        except TransientError:
            raise
        except Exception as error:
            return failed_outcome(call.id, f"{type(error).__name__}: {error}")
        outcome = result if isinstance(result, ToolOutcome) else successful_outcome(call, result)
        return outcome.model_copy(update={"state": dict(context.state_changes)})

    def offload_large(self, outcome: ToolOutcome, context: ToolContext) -> ToolOutcome:
        return outcome

    def truncate_large(self, outcome: ToolOutcome) -> ToolOutcome:
        return outcome

    def verify(self, call: ToolCall, spec: ToolDeclaration, context: ToolContext) -> ToolOutcome | None:
        function = self.functions.get(f"verify_{call.tool_name}")
        found = function(call.args, context) if function else None
        return found if isinstance(found, ToolOutcome) else None

    def router(self, name: str) -> Router:
        if name not in self.routers:
            raise UsageError(f"no router {name!r}")
        return self.routers[name]

    def _function(self, name: str) -> Function:
        if name not in self.functions:
            raise UsageError(f"no tool {name!r}")
        return self.functions[name]
