"""OpenAI's rules for the JSON Schemas of tools and of answers, and the stricter ones of strict mode."""

from collections.abc import Iterator
from typing import Any

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import Json

_NOT_ON_TOP = ("oneOf", "anyOf", "allOf", "enum", "not")
_NOT_IN_STRICT = (
    *("allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf", "patternProperties"),
    *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "uniqueItems"),
    *("contains", "minContains", "maxContains", "default"),
)


def check_tool_schemas(tools: list[Json]) -> None:
    """Raise Refusal for the first tool whose schema is refused."""
    for n, tool in enumerate(tools):
        function = tool["function"]
        if "parameters" in function:
            _check(f"function '{function['name']}'", f"tools[{n}].function.parameters", function, "parameters")


def check_response_format(body: Json) -> None:
    """Raise Refusal for a response format that is refused."""
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_object" and "json" not in str(body["messages"]).lower():
        raise Refusal("'messages' must contain the word 'json' in some form.", param="messages")
    if wanted.get("type") == "json_schema" and "schema" in wanted["json_schema"]:
        given = wanted["json_schema"]
        _check(f"response_format '{given['name']}'", "response_format", given, "schema")


def _check(subject: str, param: str, holder: Json, name: str) -> None:
    for path, schema in _subschemas(holder[name], ()):
        for problem in [*_problems(path, schema), *(_strict_problems(schema) if holder.get("strict") else ())]:
            raise Refusal(f"Invalid schema for {subject}: In context={path!r}, {problem}", param=param)


def _problems(path: tuple[str, ...], schema: Json) -> Iterator[str]:
    kind = schema.get("type")
    if not path and (kind != "object" or "properties" not in schema):
        yield "schema must be of type 'object' and have properties."
    if not path:
        yield from (f"'{keyword}' is not permitted at the top level." for keyword in _NOT_ON_TOP if keyword in schema)
    if kind == "array" and "items" not in schema and "prefixItems" not in schema:
        yield "array schema missing items."


def _strict_problems(schema: Json) -> Iterator[str]:
    names = schema.get("properties", ())
    yield from (f"'{keyword}' is not permitted." for keyword in _NOT_IN_STRICT if keyword in schema)
    if schema.get("type") == "object" or names:
        if schema.get("additionalProperties") is not False:
            yield "'additionalProperties' is required to be supplied and to be false."
        if missing := [name for name in names if name not in schema.get("required", ())]:
            yield f"'required' must include every key in properties. Missing '{missing[0]}'."
    elif not {"type", "enum", "const", "anyOf", "$ref"} & schema.keys():
        yield "schema must have a 'type' key."


def _subschemas(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the schema and all schemas in it, with their paths."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword in ("properties", "$defs", "definitions"):
        for name, one in (schema.get(keyword) or {}).items():
            yield from _subschemas(one, (*path, keyword, name))
    for keyword in ("items", "additionalProperties"):
        yield from _subschemas(schema.get(keyword), (*path, keyword))
    for keyword in ("anyOf", "oneOf", "allOf"):
        for n, one in enumerate(schema.get(keyword) or ()):
            yield from _subschemas(one, (*path, keyword, str(n)))
