"""tools: functions of an OpenAI client as client tools of Roboco: `search` is `client_search`, and back.

The mapping only adds and removes a prefix, so each gateway can reverse it. A name that does not fit is refused, as are
two functions of one name.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.decision.tool_answers import is_client_call
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.gateway.openai.problems import wrong_parameter

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,57}")


def client_tools(tools: Sequence[dict[str, Any]], nested: bool) -> list[dict[str, Any]]:
    """Return the client tools of a request's `tools`; chat completions nest each in `function`.

    Raise Problem for a tool that is not a function, and for a name that does not fit or is there twice.
    """
    found: dict[str, dict[str, Any]] = {}
    for index, tool in enumerate(tools):
        where = f"tools.{index}"
        function = tool.get("function") if nested else tool
        if tool.get("type") != "function" or not isinstance(function, dict):
            raise wrong_parameter(f"{where}.type", "only functions are supported", "the team has its own other tools")
        name = function.get("name")
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise wrong_parameter(f"{where}.name", "must be 1 to 57 letters, digits, '_' and '-'")
        if name in found:
            raise wrong_parameter(f"{where}.name", f"{name!r} is there twice; names must differ")
        found[name] = {
            "name": f"{CLIENT_PREFIX}{name}",
            "description": function.get("description") or f"The function {name} of the client.",
            "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
            **({"agents": function["agents"]} if function.get("agents") else {}),
        }
    return list(found.values())


def function_name(call: ToolCall) -> str:
    """Return the name of a called tool as the client knows it."""
    return call.tool_name.removeprefix(CLIENT_PREFIX)


def arguments_json(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text."""
    return json.dumps(call.args, ensure_ascii=False, separators=(",", ":"))


def function_calls(step: TaskStep) -> list[ToolCall]:
    """Return the calls of a step that the client runs."""
    return [call for call in step.calls if is_client_call(call)]
