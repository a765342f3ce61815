"""Toolbox: the tools that this process can describe and run, and routers of the user's own."""

import importlib
import logging
import time
from collections.abc import Callable
from typing import Any

from roboco.adapters.builtin_tools import BuiltinTools
from roboco.adapters.json_schema import mistake, schema_mistake
from roboco.adapters.large_result import cut_large, keep_large
from roboco.adapters.tool import FunctionTool, describe_function, is_tool
from roboco.domain.builtin import BUILTIN
from roboco.domain.outcome import Outcome, failure, success, unknown, without_effect
from roboco.domain.part import Artifact, ToolCall
from roboco.domain.router import Router
from roboco.domain.team import Agent, Team, ToolSpec
from roboco.errors import TransientError, UsageError
from roboco.ports import CallContext, Files, Histories

_log = logging.getLogger(__name__)


class FunctionToolbox:
    """Built-in tools, and functions of the modules that the operator allows.

    `time_up` is the exception by which the pool tells a tool that its time is up.
    """

    def __init__(
        self,
        files: Files,
        histories: Histories,
        modules: tuple[str, ...],
        time_up: type[Exception] = TimeoutError,
    ) -> None:
        self._files = files
        self._modules = modules
        self._builtin = BuiltinTools(files, histories)
        self._time_up = time_up
        self._functions: dict[str, FunctionTool] = {}

    def describe(self, team: Team, agent: Agent) -> tuple[dict[str, Any], ...]:
        """The agent's own tools as the chat completions protocol has them; UsageError if one cannot be had."""
        return tuple(self._schema(team, name) for name in agent.tools)

    def schema_mistake(self, schema: dict[str, Any]) -> str:
        """What is wrong with the JSON Schema of an object; "" if nothing is."""
        return schema_mistake(schema)

    def mistake(self, schema: dict[str, Any], args: dict[str, Any]) -> str:
        """What the JSON Schema finds wrong with the arguments; "" if nothing."""
        return mistake(schema, args)

    def run(self, call: ToolCall, spec: ToolSpec | None, context: CallContext) -> Outcome:
        """Run the call; whatever goes wrong is in the outcome.

        TransientError only where the workspace fails, so that the call is tried again.
        """
        began = time.monotonic()
        artifacts: tuple[Artifact, ...] = ()
        try:
            if spec is None:
                result, artifacts = self._builtin.call(call.tool_name, call.args, context)
            else:
                result = self.function(spec.function).call(call.args, context)
        except UsageError as error:
            return failure(call.id, str(error), _elapsed_ms(began))
        except self._time_up:
            return _timed_out(call, spec, _elapsed_ms(began))
        except TransientError:
            raise
        except Exception as error:  # a tool may raise anything, and the agent is told what
            return failure(call.id, f"{type(error).__name__}: {error}"[:2000], _elapsed_ms(began))
        return success(call, result, _elapsed_ms(began)).model_copy(update={"artifacts": artifacts})

    def keep(self, outcome: Outcome, context: CallContext) -> Outcome:
        """The outcome, with a result that is too large for the history in a file of the task."""
        return keep_large(self._files, context.task_id, outcome)

    def cut(self, outcome: Outcome) -> Outcome:
        """The outcome, with a result that is too large for the history cut to its beginning."""
        return cut_large(outcome)

    def verify(self, call: ToolCall, spec: ToolSpec, context: CallContext) -> Outcome | None:
        """What a lost call came to, as the tool's own `verify` finds out; None if it has none, or it fails."""
        began = time.monotonic()
        try:
            found = self.function(spec.function).find_out(call.args, context)
        except TransientError:
            raise
        except Exception as error:  # whoever looks may fail in any way, and then nobody knows
            _log.warning("what came of %s of task %s could not be found out: %s", call.id, context.task_id, error)
            return None
        if found is None:
            return None
        if not found.happened:
            return without_effect(call.id)
        return success(call, found.result, _elapsed_ms(began))

    def router(self, name: str) -> Router:
        """The router of the user's own with this name, "package.module:function"; UsageError if there is none."""
        router: Router = self._imported(name)
        return router

    def function(self, name: str) -> FunctionTool:
        """The function tool "package.module:function"; UsageError if it cannot be had here."""
        if name not in self._functions:
            function = self._imported(name)
            if not is_tool(function):
                raise UsageError(f"function {name!r} is not marked with @tool")
            self._functions[name] = describe_function(function)
        return self._functions[name]

    def _schema(self, team: Team, name: str) -> dict[str, Any]:
        spec = team.tool(name)
        if spec is not None:
            return self.function(spec.function).schema(name, spec.description)
        if name in BUILTIN:
            return self._builtin.schema(name)
        raise UsageError(f"no tool {name!r} in team {team.name!r}")

    def _imported(self, name: str) -> Callable[..., Any]:
        module_name, _, attribute = name.partition(":")
        if module_name not in self._modules:
            allowed = ", ".join(self._modules) or "no modules"
            raise UsageError(f"function {name!r}: module {module_name!r} is not in ROBOCO_TOOLS, which names {allowed}")
        try:
            found = getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise UsageError(f"function {name!r} cannot be had: {error}") from error
        if not callable(found):
            raise UsageError(f"function {name!r} is no function")
        function: Callable[..., Any] = found
        return function


def _timed_out(call: ToolCall, spec: ToolSpec | None, runtime_ms: int) -> Outcome:
    """What is known of a call that was told to end: of an irreversible one, nothing."""
    limit = 0.0 if spec is None else spec.timeout
    message = f"tool {call.tool_name!r} did not end within its {limit:g} s"
    if spec is None or spec.effect != "irreversible":
        return failure(call.id, message, runtime_ms)
    return unknown(call.id, message, spec.on_unknown, runtime_ms)


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
