"""Functions of the modules that the operator allows, as tools and as the user's own routers."""

import dataclasses
import importlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, get_origin

from pydantic import BaseModel
from typing_extensions import is_typeddict

from roboco.domain.decision.router import Router
from roboco.domain.team.tool_spec import AgentFunction, PydanticTurn
from roboco.errors import NotRunnable, UsageError
from roboco.tools.function_tool import FunctionTool, describe_function, is_check, is_tool

SHIPPED_MODULE: Final = "roboco.examples.house_style"
"""The module of the team of `roboco demo`, which every worker can run: its functions are pure, and look up a text."""


class FunctionLoader:
    """Imports functions that teams name as "package.module:function", from the allowed and the shipped module only."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self._tools: dict[str, FunctionTool] = {}

    def tool(self, name: str) -> FunctionTool:
        """Return the function tool of this name. Raise NotRunnable if this process does not have it."""
        if name not in self._tools:
            function = self._import_function(name)
            if not is_tool(function):
                raise NotRunnable(f"function {name!r} is not marked with @tool", module_of(name))
            self._tools[name] = describe_function(function)
        return self._tools[name]

    def pydantic_agent(self, name: str) -> Any:
        """Return the agent of pydantic-ai of this name. Raise NotRunnable if this process does not have it."""
        found: Any = self._import(name)
        if not importlib.import_module("roboco.tools.pydantic_agents").is_agent(found):
            raise NotRunnable(f"{name!r} is no agent of pydantic-ai", module_of(name))
        return found

    def deps(self, name: str) -> FunctionTool:
        """Return the function that makes the deps of an agent of pydantic-ai. Raise UsageError if it may have effects.

        It runs at each turn and call, without an approval.
        """
        found = self.tool(name)
        if found.demands or found.arguments.model_fields:
            raise UsageError(f"deps {name!r}: name a function that takes a ToolContext alone and demands no effect")
        return found

    def check_turn(self, declared: AgentFunction) -> None:
        """Raise NotRunnable if this process lacks the function of an agent, UsageError if it does not fit.

        Its call has no arguments.
        """
        if isinstance(declared, PydanticTurn):
            self.pydantic_agent(declared.function)
            return
        found = self.tool(declared.function)
        found.check_declaration(declared)
        needed = [str(one.alias) for one in found.arguments.model_fields.values() if one.is_required()]
        if needed:
            raise UsageError(f"function {declared.function!r} of an agent has no arguments but a ToolContext: {needed}")

    def router(self, name: str) -> Router:
        """Return the router of this name. Raise UsageError if it cannot be used.

        A tool is rejected, since it would run without its checks; so is a function of another package, which its module
        only imports.
        """
        router: Any = self._import_function(name)
        made_in = str(getattr(router, "__module__", ""))
        if is_tool(router) or made_in.partition(".")[0] != name.partition(":")[0].partition(".")[0]:
            what = "is a tool" if is_tool(router) else f"is of module {made_in!r}"
            raise UsageError(f"function {name!r} {what}, so it cannot be a router: name a function of your own package")
        found: Router = router
        return found

    def check(self, name: str) -> Callable[[Any], Any]:
        """Return the check of this name. Raise UsageError if it is not marked with @check."""
        function = self._import_function(name)
        if not is_check(function):
            raise UsageError(f"function {name!r} is not marked with @check")
        return function

    def own_type(self, name: str) -> Any:
        """Return the type of this name: a model, dataclass, TypedDict or Enum of the module itself, or an alias.

        Raise UsageError for anything else: pydantic would call a function, and evaluate a text.
        """
        found: Any = self._import(name)
        if isinstance(found, type) and get_origin(found) is None:
            kinds = issubclass(found, (BaseModel, Enum)) or dataclasses.is_dataclass(found) or is_typeddict(found)
            is_type = kinds and found.__module__ == module_of(name)
        else:
            is_type = get_origin(found) is not None
        if not is_type:
            what = "a model, dataclass, TypedDict or Enum of this module, or an alias such as list[Model]"
            raise UsageError(f"output {name!r} is no type of answers: name {what}")
        return found

    def _import_function(self, name: str) -> Callable[..., Any]:
        found: Any = self._import(name)
        if not callable(found):
            raise NotRunnable(f"{name!r} is not a function", module_of(name))
        function: Callable[..., Any] = found
        return function

    def _import(self, name: str) -> object:
        module_name, attribute = module_of(name), name.partition(":")[2]
        if module_name not in (*self._modules, SHIPPED_MODULE):
            allowed = ", ".join(self._modules) or "no modules"
            message = f"function {name!r}: module {module_name!r} is not in ROBOCO_TOOL_MODULES, which names {allowed}"
            raise NotRunnable(message, module_name)
        try:
            return getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError, SyntaxError, SystemExit) as error:
            reason = str(error)
            if isinstance(error, SyntaxError):  # its text names the file and the line
                reason = f"{error}: {(error.text or '').strip()[:80]}"
            elif isinstance(error, SystemExit):  # as of a script without a guard for its main function
                reason = f"module {module_name!r} ends the process ({error!r})"
            raise NotRunnable(f"function {name!r} cannot be imported: {reason}", module_name) from error


def module_of(name: str) -> str:
    """Return the module in "package.module:function"."""
    return name.partition(":")[0]
