"""typed_answer: the schema and the value of an agent's answer that has a type.

A model answers with an object, because response formats and arguments of tools are objects. A type that is no object is
the field `value` of one.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from roboco.domain.canonical_json import canonical_json, validated_json

_FIELD = "value"
_DEFINITIONS = ("$defs", "definitions")
_MAX_STARTS = 50
"""Places of a text at which a value is looked for in vain, and its fenced blocks."""
_FENCED = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)


def answer_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the object with which a model answers."""
    if _is_object(schema):
        return schema
    inner = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
    kept = {name: schema[name] for name in _DEFINITIONS if name in schema}
    closed = {"type": "object", "properties": {_FIELD: inner}, "required": [_FIELD], "additionalProperties": False}
    return closed | kept


def mistake_in_output(schema: dict[str, Any], schema_error: Callable[[dict[str, Any]], str]) -> str:
    """Return why no answer can have this type, or "" if it can. `schema_error` checks the schema of an object."""
    mistake = schema_error(answer_schema(schema))
    if mistake or _is_object(schema) or '"$ref":"#"' not in canonical_json(schema):
        return mistake
    return "has the reference '#', which is possible in the schema of an object alone; refer to '#/$defs/NAME'"


def as_answer(schema: dict[str, Any], value: Any) -> Any:
    """Return the object with which a model answers this value."""
    return value if _is_object(schema) else {_FIELD: value}


def answer_value(schema: dict[str, Any], text: str) -> Any:
    """Return the value in a model's answer. Raise ValueError if the text has none.

    Fences and prose around the value are passed over.
    """
    value = _find_json(text, "{" if _is_object(schema) else "{[")
    if not _is_object(schema) and isinstance(value, dict) and list(value) == [_FIELD]:
        return value[_FIELD]
    return value


def _is_object(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)


def _find_json(text: str, starts: str) -> Any:
    """Return the JSON value that is the whole text, else its last fenced block, else the last value in it.

    A model that writes prose drafts and quotes before it answers. A value in the text begins with one of `starts`.
    """
    for whole in (text, *reversed(_FENCED.findall(text)[-_MAX_STARTS:])):
        with suppress(ValueError, RecursionError):
            return validated_json(json.loads(whole))
    decoder, found, end, failures = json.JSONDecoder(), list[Any](), 0, 0
    for place, character in enumerate(text):
        if character not in starts or place < end:
            continue
        try:
            value, end = decoder.raw_decode(text, place)
            found = [value]
        except (ValueError, RecursionError):
            failures += 1
            if failures == _MAX_STARTS:
                break
    with suppress(RecursionError):
        if found:
            return validated_json(found[0])
    raise ValueError("it is no JSON")
