"""The decorator `tool`, and Python functions as tools of agents."""

import asyncio
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from roboco.domain.history.part import Media
from roboco.domain.schema import Effect
from roboco.domain.team.tool_spec import ToolDeclaration
from roboco.errors import UsageError
from roboco.ports.tools import ToolContext
from roboco.tools.returned_files import split_files
from roboco.tools.tool_result import to_json

Function = TypeVar("Function", bound=Callable[..., Any])

Verify = Callable[[dict[str, Any], str], Any]
"""Finds out whether a call with these arguments and this idempotency key had its effect."""

_TOOL_ATTRIBUTE = "__roboco_tool__"
"""Of a marked function: its `verify`, and the least effect and approval."""
_CHECK_ATTRIBUTE = "__roboco_check__"
ApprovalFloor = Literal["never", "required"]
MAX_MISTAKES = 5
"""The largest number of mistakes of a value that are shown to the model."""
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""The effects, each stricter than the one before."""


@overload
def tool(function: Function) -> Function: ...


@overload
def tool(
    *, verify: Verify | None = None, effect: Effect = "pure", approval: ApprovalFloor = "never"
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    *,
    verify: Verify | None = None,
    effect: Effect = "pure",
    approval: ApprovalFloor = "never",
) -> Any:
    """Mark a function as a tool that teams may name. The function itself does not change.

    It needs type hints and a docstring: the model sees both. A parameter annotated with `ToolContext` gets the call's
    context, and the model does not see it.

    `effect` and `approval` are the least that a team must declare for the function; it may be stricter. Give them to
    each function whose calls must not be repeated, or must be approved, in every team.

    If an irreversible call was started and its worker crashed, Roboco calls `verify(args, key)` to find out whether the
    call with these arguments (a JSON object) and this idempotency key had its effect. It may return:

    * a JSON value: the call had its effect, and this is its result;
    * True: the call had its effect, but the result is not known;
    * False: the effect did not happen and will not happen. The worker may only have been suspended and may go on, so
      invalidate the key at the service that performs the effect before you return False;
    * None: the outcome stays unknown. It also does if `verify` raises.
    """

    def mark(marked: Function) -> Function:
        setattr(marked, _TOOL_ATTRIBUTE, (verify, effect, approval))
        return marked

    return mark if function is None else mark(function)


def check(function: Function) -> Function:
    """Mark a function as a check of typed answers, which agents may name in `validate`.

    It gets the value, raises ValueError with a reason for the model if the value is wrong, and returns None or the
    value that takes its place. It should be quick, and change nothing: it runs beside turns, and again after a crash.
    """
    setattr(function, _CHECK_ATTRIBUTE, True)
    return function


def is_check(function: object) -> bool:
    """Return True if the function was marked with `check`."""
    return inspect.isfunction(function) and getattr(function, _CHECK_ATTRIBUTE, False) is True


def is_tool(function: object) -> bool:
    """Return True if the function was marked with `tool`."""
    return callable(function) and isinstance(getattr(function, _TOOL_ATTRIBUTE, None), tuple)


@dataclass(frozen=True)
class Verified:
    """The finding of a tool's `verify`: whether the effect happened, and its result."""

    happened: bool
    result: Any = None


@dataclass(frozen=True)
class FunctionTool:
    """A function, with the data to describe it to a model and to call it with a model's arguments."""

    function: Callable[..., Any]
    description: str
    arguments: type[BaseModel]
    context: str | None
    verify: Verify | None
    effect: Effect = "pure"
    """The least effect that a team must declare."""
    approval: ApprovalFloor = "never"
    """The least approval."""

    @property
    def demands(self) -> bool:
        """Return True if a team must declare an effect or approval of the function, since `@tool` says so."""
        return (self.effect, self.approval) != ("pure", "never")

    def check_declaration(self, declared: ToolDeclaration) -> None:
        """Raise UsageError if a team declares a weaker effect or approval than the function demands."""
        if _EFFECTS.index(declared.effect) < _EFFECTS.index(self.effect):
            found, least = f"effect: {declared.effect}", f"effect: {self.effect}"
        elif self.approval == "required" and declared.approval != "required":
            found, least = "no approval of each call", "approval: required"
        else:
            return
        raise UsageError(
            f"tool {declared.name!r} of the team declares {found}, and its function demands {least}: declare that"
        )

    def schema(self, name: str, description: str | None = None) -> dict[str, Any]:
        """Return the tool in the format of the chat completions protocol."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        return {
            "type": "function",
            "function": {"name": name, "description": description or self.description, "parameters": parameters},
        }

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the function's result as JSON, with descriptions in place of files. Raise TypeError if it has none."""
        return to_json(self.returned(args, context)[0], self._full_name)

    def returned(self, args: Mapping[str, Any], context: ToolContext) -> tuple[Any, tuple[Media, ...]]:
        """Return the function's result, with descriptions in place of files, and the files.

        Raise UsageError if the arguments do not fit.
        """
        checked = self.checked_args(args)
        fields = type(checked).model_fields
        keywords = {str(field.alias): getattr(checked, name) for name, field in fields.items()}
        if self.context is not None:
            keywords[self.context] = context
        return split_files(_finished(self.function(**keywords)))

    def checked_args(self, args: Mapping[str, Any]) -> BaseModel:
        """Return the arguments as the types of the parameters make them. Raise UsageError if they do not fit."""
        try:
            return self.arguments.model_validate(args)
        except ValidationError as error:
            possible = ", ".join(str(field.alias) for field in self.arguments.model_fields.values()) or "none"
            found = mistakes_of(error, "arguments")
            raise UsageError(f"wrong arguments: {found}; parameters are: {possible}") from error

    def verify_call(self, args: dict[str, Any], context: ToolContext) -> Verified | None:
        """Return the outcome of a call that was started, or None if the tool cannot determine it."""
        if self.verify is None:
            return None
        found = to_json(_finished(self.verify(args, context.idempotency_key)), self._full_name)
        if found is None:
            return None
        if found is False:
            return Verified(happened=False)
        return Verified(happened=True, result="the call had its effect" if found is True else found)

    @property
    def _full_name(self) -> str:
        return f"{getattr(self.function, '__module__', '')}:{_name(self.function)}"


def _finished(result: Any) -> Any:
    """Return the result. If it is a coroutine, run it first."""
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def describe_function(function: Callable[..., Any]) -> FunctionTool:
    """Return the function as a tool. Raise UsageError if a parameter has no type hint or cannot be passed by name."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context = None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"tool {_name(function)}: parameter {name!r} cannot be passed by name")
        if name not in hints:
            raise UsageError(f"tool {_name(function)}: parameter {name!r} has no type hint")
        if hints[name] is ToolContext:
            context = name
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[f"parameter{len(fields)}"] = (hints[name], Field(default, alias=name))
    arguments = create_model(_name(function), __config__=ConfigDict(extra="forbid"), **fields)
    marks = getattr(function, _TOOL_ATTRIBUTE, (None, "pure", "never"))
    return FunctionTool(function, inspect.getdoc(function) or "", arguments, context, *marks)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def mistakes_of(error: ValidationError, whole: str) -> str:
    """Return the first mistakes of a value, each with its place, which is `whole` for the value itself."""
    found = error.errors(include_url=False, include_context=False)
    lines = [f"{'.'.join(map(str, one['loc'])) or whole}: {one['msg']} (found {one['input']!r:.80})" for one in found]
    more = [f"and {len(lines) - MAX_MISTAKES} mistakes more"] if len(lines) > MAX_MISTAKES else []
    return "; ".join(lines[:MAX_MISTAKES] + more)
