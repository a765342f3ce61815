"""The types of OpenAI's parameters, from the openai package: unknown names, wrong types, values of no enum.

Each type becomes a function once, so that checking a request takes microseconds.
"""

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from itertools import takewhile
from typing import Any, Literal, NoReturn, NotRequired, Required, Union

from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionDeveloperMessageParam,
    ChatCompletionSystemMessageParam,
    ChatCompletionToolMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from typing_extensions import is_typeddict

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import Json
from tests.support.servers.dialects.chat_rules import wrong_type

Check = Callable[[Any, str], None]
"""Raises Refusal if the value of this parameter is none of the type."""
_PLAIN: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    str: ("a string", (str,)),
    bool: ("a boolean", (bool,)),
    int: ("an integer", (int,)),
    float: ("a decimal", (int, float)),
    object: ("an object", (object,)),
    types.NoneType: ("null", (types.NoneType,)),
}


_MESSAGES = {
    "assistant": ChatCompletionAssistantMessageParam,
    "developer": ChatCompletionDeveloperMessageParam,
    "system": ChatCompletionSystemMessageParam,
    "tool": ChatCompletionToolMessageParam,
    "user": ChatCompletionUserMessageParam,
}


def check_types(body: Json) -> None:
    """Raise Refusal if a parameter is unknown, is missing, or has the wrong type."""
    _check_of(CompletionCreateParamsStreaming if body.get("stream") else CompletionCreateParamsNonStreaming)(body, "")


def unknown_parameters(body: Json) -> list[str]:
    """Return the names that OpenAI does not know."""
    return [name for name in body if name not in _fields(CompletionCreateParamsStreaming)]


@cache
def _check_of(hint: Any) -> Check:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if is_typeddict(hint):
        return _fields_check(hint)
    if origin is Literal:
        return _enum_check(arguments)
    if origin in (Union, types.UnionType):
        return _union_check(arguments)
    if origin is dict:
        return _mapping_check(_check_of(arguments[1]))
    if origin is not None and arguments:
        return _array_check(_check_of(arguments[0]), expected(hint))
    name, kinds = _PLAIN.get(hint, _PLAIN[object])
    return _plain_check(name, kinds)


def _plain_check(name: str, kinds: tuple[type, ...]) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, kinds) or (
            (value is True or value is False) and bool not in kinds and object not in kinds
        ):
            raise wrong_type(path, name, value)

    return check


def _enum_check(values: tuple[Any, ...]) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str | bool):
            raise wrong_type(path, "a string", value)
        if value not in values:
            _wrong_value(path, value, values)

    return check


def _array_check(item: Check, name: str) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise wrong_type(path, name, value)
        for n, one in enumerate(value):
            item(one, f"{path}[{n}]")

    return check


def _mapping_check(item: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise wrong_type(path, "an object", value)
        for name, one in value.items():
            item(one, f"{path}.{name}")

    return check


def _fields_check(hint: Any) -> Check:
    fields = {name: (_check_of(_bare(one)), typing.get_origin(one) is Required) for name, one in _fields(hint).items()}
    required = [name for name, (_, needed) in fields.items() if needed]

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise wrong_type(path, "an object", value)
        prefix = f"{path}." if path else ""
        for name in required:
            if name not in value:
                message = f"Missing required parameter: '{prefix}{name}'."
                raise Refusal(message, param=prefix + name, code="missing_required_parameter")
        for name, one in value.items():
            if name not in fields:
                message = f"Unknown parameter: '{prefix}{name}'."
                raise Refusal(message, param=prefix + name, code="unknown_parameter")
            fields[name][0](one, prefix + name)

    return check


def _union_check(hints: tuple[Any, ...]) -> Check:
    """Return the check of a union: its member is chosen by the type of the value, objects by their role or type."""
    objects = [hint for hint in hints if is_typeddict(hint)]
    others = [hint for hint in hints if not is_typeddict(hint)]
    choose = _object_check(objects) if objects else None
    checks = [_check_of(hint) for hint in others]
    enums = tuple(value for hint in others if typing.get_origin(hint) is Literal for value in typing.get_args(hint))
    name = _one_of(hints)

    def check(value: Any, path: str) -> None:
        if choose is not None and isinstance(value, dict):
            choose(value, path)
            return
        failures = list(takewhile(lambda failure: failure, (_failure(one, value, path) for one in checks)))
        if len(failures) < len(checks):
            return
        for failure in failures:
            if failure is not None and failure.param != path:  # the value is an array, and one of its items is wrong
                raise failure
        if enums and isinstance(value, str):
            _wrong_value(path, value, enums)
        raise wrong_type(path, name, value)

    return check


def _failure(check: Check, value: Any, path: str) -> Refusal | None:
    try:
        check(value, path)
    except Refusal as failure:
        return failure
    return None


def _object_check(hints: list[Any]) -> Check:
    """Return the check of an object that is one of several, as its discriminator says."""
    if len(hints) == 1:
        return _check_of(hints[0])
    fields = [_fields(hint) for hint in hints]
    tag = "role" if all("role" in names for names in fields) else "type"
    members = {
        value: _check_of(hint)
        for hint, names in zip(hints, fields, strict=True)
        for value in typing.get_args(_bare(names[tag]))
    }

    def check(value: Any, path: str) -> None:
        if tag not in value:
            message = f"Missing required parameter: '{path}.{tag}'."
            raise Refusal(message, param=f"{path}.{tag}", code="missing_required_parameter")
        if value[tag] not in members:
            _wrong_value(f"{path}.{tag}", value[tag], tuple(members))
        members[value[tag]](value, path)

    return check


def _wrong_value(path: str, value: Any, supported: tuple[Any, ...]) -> NoReturn:
    message = f"Invalid value: '{value}'. Supported values are: {listed(supported)}."
    raise Refusal(message, param=path, code="invalid_value")


def listed(values: tuple[Any, ...]) -> str:
    """Return the values in a sentence: 'a', 'b', and 'c'."""
    quoted = [f"'{value}'" for value in values if value is not None]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def expected(hint: Any) -> str:
    """Return the name of a type in OpenAI's errors."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if is_typeddict(hint) or origin is dict:
        return "an object"
    if origin is Literal:
        return "a string"
    if origin in (Union, types.UnionType):
        return _one_of(arguments)
    if origin is not None and arguments:
        item = expected(arguments[0])
        return "an array of strings" if item == "a string" else "an array of objects"
    return _PLAIN.get(hint, _PLAIN[object])[0]


def _one_of(hints: tuple[Any, ...]) -> str:
    """Return the names of the types: one of a string or array of objects."""
    first, *rest = dict.fromkeys(expected(hint) for hint in hints if hint is not types.NoneType)
    return f"one of {first} or {' or '.join(name.partition(' ')[2] for name in rest)}" if rest else first


def message_fields(role: str) -> frozenset[str]:
    """Return the names of the fields of OpenAI's messages with this role."""
    return frozenset(_fields(_MESSAGES[role])) if role in _MESSAGES else frozenset()


@cache
def _fields(hint: Any) -> dict[str, Any]:
    return typing.get_type_hints(hint, include_extras=True)


def _bare(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (Required, NotRequired) else hint
