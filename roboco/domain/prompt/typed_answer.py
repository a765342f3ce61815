"""typed_answer: the schema and the value of an agent's answer that has a type.

A model answers with an object, because response formats and arguments of tools are objects. A type that is no object is
the field `value` of one.
"""

import json
from typing import Any

from roboco.domain.canonical_json import canonical_json, validated_json

_FIELD = "value"
_ROOT = "answer_value"
_DEFINITIONS = ("$defs", "definitions")
_MAX_STARTS = 50
"""Places of a text at which a value is looked for."""


def answer_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the object with which a model answers."""
    if _is_object(schema):
        return schema
    inner = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
    kept = {name: schema[name] for name in _DEFINITIONS if name in schema}
    if '"$ref":"#"' in canonical_json(schema):  # the root is the wrapped schema now
        definitions = {_ROOT: inner} | kept.get("$defs", {})
        inner, kept = {"$ref": f"#/$defs/{_ROOT}"}, _with_root(kept | {"$defs": definitions})
    closed = {"type": "object", "properties": {_FIELD: inner}, "required": [_FIELD], "additionalProperties": False}
    return closed | kept


def _with_root(value: Any) -> Any:
    """Return the schema with references to the wrapped schema in place of those to the root."""
    match value:
        case {"$ref": "#"}:
            return value | {"$ref": f"#/$defs/{_ROOT}"}
        case dict():
            return {name: _with_root(inner) for name, inner in value.items()}
        case list():
            return [_with_root(inner) for inner in value]
        case _:
            return value


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
    """Return the JSON value that is the whole text, or else the first one in it that begins with such a character."""
    try:
        return validated_json(json.loads(text))
    except (ValueError, RecursionError):
        pass
    decoder = json.JSONDecoder()
    places = [place for place, character in enumerate(text) if character in starts][:_MAX_STARTS]
    for place in places:
        try:
            return validated_json(decoder.raw_decode(text, place)[0])
        except (ValueError, RecursionError):
            continue
    raise ValueError("it is no JSON")
