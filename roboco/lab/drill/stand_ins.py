"""stand_ins: the functions that run in place of a team's tools. Workers of a drill import this module as a tool module.

`tool_N` is the N-th function of `stand_ins.json` in the folder of the drill. A stand-in has the arguments, description
and `verify` of the user's function. It notes the execution, and returns a sample of the function's result. It calls the
user's function only if the user asked for the real one.
"""

import inspect
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

from pydantic import TypeAdapter, WithJsonSchema

from roboco.lab.drill.executions import FOLDER_VARIABLE, Execution, Executions
from roboco.lab.drill.schema_sample import sample
from roboco.ports.tools import ToolContext
from roboco.tools.function_loader import FunctionLoader, module_of
from roboco.tools.function_tool import tool

MODULE: Final = "roboco.lab.drill.stand_ins"
PLANS_FILE: Final = "stand_ins.json"
MAX_WAIT_SECONDS: Final = 120.0
_CONTEXT: Final = "drill_context"
_POLL_INTERVAL: Final = 0.02
_DONE: Final = {"done": True, "by": "a stand-in of the drill"}


@dataclass(frozen=True)
class StandIn:
    """A tool and its stand-in. `function` is the user's, or "" for a tool of an MCP server, which has a `schema`."""

    tool: str
    function: str = ""
    description: str = ""
    schema: dict[str, Any] | None = None
    real: bool = False
    """True to call the user's function."""


def write_plans(folder: Path, plans: list[StandIn]) -> None:
    """Store the stand-ins, for the workers that start later."""
    (folder / PLANS_FILE).write_text(json.dumps([asdict(plan) for plan in plans]))


def function_name(number: int) -> str:
    """Return the name by which a team file refers to the stand-in of this number."""
    return f"{MODULE}:tool_{number}"


def __getattr__(name: str) -> Callable[..., Any]:
    """Return the stand-in of this name. Workers look it up as they do with any tool."""
    folder, number = os.environ.get(FOLDER_VARIABLE), name.removeprefix("tool_")
    if folder is None or not number.isdecimal():
        raise AttributeError(f"there is no stand-in {name!r}")
    return _build(Path(folder), int(number))


@cache
def _build(folder: Path, number: int) -> Callable[..., Any]:
    plan = StandIn(**json.loads((folder / PLANS_FILE).read_text())[number])
    executions = Executions(folder)
    return _of_function(plan, executions) if plan.function else _of_schema(plan, executions)


def _of_function(plan: StandIn, executions: Executions) -> Callable[..., Any]:
    own = FunctionLoader((module_of(plan.function),)).tool(plan.function)
    hints = get_type_hints(own.function, include_extras=True)
    result = hints.pop("return", Any)

    def stand_in(**arguments: Any) -> Any:
        context = arguments[own.context] if own.context else arguments.pop(_CONTEXT)
        return _execute(plan, executions, context, lambda: own.function(**arguments) if plan.real else _result(result))

    def verify(args: dict[str, Any], key: str) -> Any:
        return _result(result) if any(one.key == key for one in executions.read()) else False

    _describe(stand_in, own.description, inspect.signature(own.function).parameters.values(), hints, own.context)
    return tool(verify=own.verify if own.verify is None or plan.real else verify)(stand_in)


def _of_schema(plan: StandIn, executions: Executions) -> Callable[..., Any]:
    schema = plan.schema or {}
    required = schema.get("required") or ()
    properties = {name: part for name, part in (schema.get("properties") or {}).items() if name.isidentifier()}
    hints: dict[str, Any] = {
        name: Annotated[Any, WithJsonSchema(part if isinstance(part, dict) and "$ref" not in str(part) else {})]
        for name, part in properties.items()
    }
    defaults = {name: inspect.Parameter.empty if name in required else None for name in properties}
    kind = inspect.Parameter.KEYWORD_ONLY

    def stand_in(**arguments: Any) -> Any:
        return _execute(plan, executions, arguments[_CONTEXT], lambda: _DONE)

    parameters = [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]
    _describe(stand_in, plan.description, parameters, hints, None)
    return tool(stand_in)


def _describe(
    stand_in: Any,
    description: str,
    parameters: Iterable[inspect.Parameter],
    hints: dict[str, Any],
    context: str | None,
) -> None:
    """Give the function these parameters and hints, and one for the context of the call if it has none."""
    keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    if context is None:
        keywords.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY))
        hints = {**hints, _CONTEXT: ToolContext}
    stand_in.__doc__ = description
    stand_in.__signature__ = inspect.Signature(keywords)
    stand_in.__annotations__ = hints


def _result(hint: Any) -> Any:
    """Return a sample of the type, or a word if the type has no JSON Schema."""
    if hint is Any:
        return _DONE
    try:
        return sample(TypeAdapter(hint).json_schema(), random.Random(0))  # noqa: S311  # no secret
    except Exception:  # a user's type may raise anything
        return _DONE


def _execute(plan: StandIn, executions: Executions, context: ToolContext, run: Callable[[], Any]) -> Any:
    """Note the execution, obey an order, and return the result of `run`."""
    executions.note(Execution(plan.tool, context.task_id, context.call_id, context.idempotency_key))
    order = executions.take(plan.tool)
    if order == "raise":
        raise RuntimeError("the drill lets this execution raise")
    result = run()
    match order:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(MAX_WAIT_SECONDS)
        case "wait":
            deadline = time.monotonic() + MAX_WAIT_SECONDS
            while not executions.is_released() and time.monotonic() < deadline:
                time.sleep(_POLL_INTERVAL)
        case _:
            pass
    return result
