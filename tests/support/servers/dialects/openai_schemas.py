"""OpenAI's rules for the JSON Schemas of tools and of answers, and the stricter ones of strict mode."""

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import Json
from tests.support.servers.dialects.openai_values import check_tool_name

MAX_DEPTH = 10
MAX_PROPERTIES = 5_000
MAX_ENUM_VALUES = 1_000
"""In strict mode, as are the two above."""
_TYPES = ("object", "string", "number", "integer", "boolean", "array", "null")
_NOT_IN_STRICT = (
    *("allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf", "patternProperties"),
    *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "uniqueItems"),
    *("contains", "minContains", "maxContains", "default"),
)
_NOT_ON_TOP = frozenset({"oneOf", "anyOf", "allOf", "enum", "not"})
_Path = tuple[str, ...]


def check_tool_schemas(tools: list[Json]) -> None:
    """Raise Refusal for the first tool whose schema is refused."""
    for n, tool in enumerate(tools):
        function = tool.get("function") or {}
        if "parameters" in function:
            subject = f"function '{function['name']}'"
            _Rules(subject, f"tools[{n}].function.parameters", "invalid_function_parameters").check(
                function["parameters"], strict=bool(function.get("strict"))
            )


def check_response_format(body: Json) -> None:
    """Raise Refusal for a response format that is refused."""
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_object" and "json" not in str(body["messages"]).lower():
        message = (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        )
        raise Refusal(message, param="messages")
    if wanted.get("type") == "json_schema":
        given = wanted["json_schema"]
        check_tool_name("response_format.json_schema.name", given["name"])
        if "schema" in given:
            _Rules(f"response_format '{given['name']}'", "response_format", None).check(
                given["schema"], strict=bool(given.get("strict"))
            )


class _Rules:
    def __init__(self, subject: str, param: str, code: str | None) -> None:
        self._subject = subject
        self._param = param
        self._code = code
        self._properties = 0
        self._values = 0

    def check(self, schema: Any, strict: bool) -> None:
        """Raise Refusal if the schema is refused."""
        if not isinstance(schema, dict) or schema.get("type") != "object":
            kind = schema.get("type") if isinstance(schema, dict) else None
            self._refuse((), f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.", bare=True)
        if _NOT_ON_TOP & schema.keys():
            listed = "/".join(f"'{keyword}'" for keyword in sorted(_NOT_ON_TOP))
            self._refuse((), f"schema must have type 'object' and not have {listed} at the top level.", bare=True)
        for path, one in _subschemas(schema, ()):
            self._check_one(path, one)
            if strict:
                self._check_strict(path, one)

    def _check_one(self, path: _Path, schema: Json) -> None:
        kinds = schema.get("type")
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind is not None and kind not in _TYPES:
                self._refuse(path, f"{kind!r} is not valid under any of the given schemas.")
        if schema.get("type") == "object" and not path and "properties" not in schema:
            self._refuse(path, "object schema missing properties.")
        if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
            self._refuse(path, "array schema missing items.")
        if not isinstance(schema.get("required", []), list):
            self._refuse(path, f"{schema['required']!r} is not of type 'array'.")
        if isinstance(schema.get("pattern"), str):
            try:
                re.compile(schema["pattern"])
            except re.error:
                self._refuse(path, f"'{schema['pattern']}' is not a 'regex'.")

    def _check_strict(self, path: _Path, schema: Json) -> None:
        for keyword in _NOT_IN_STRICT:
            if keyword in schema:
                self._refuse(path, f"'{keyword}' is not permitted.")
        if schema.get("type") == "object" or "properties" in schema:
            if schema.get("additionalProperties") is not False:
                self._refuse(path, "'additionalProperties' is required to be supplied and to be false.")
            names, required = list(schema.get("properties", ())), schema.get("required")
            missing = [name for name in names if name not in (required or ())]
            if required is None or missing:
                detail = f" Missing '{missing[0]}'." if missing else ""
                needed = "'required' is required to be supplied and to be an array including every key in properties."
                self._refuse(path, needed + detail)
        elif not {"type", "enum", "const", "anyOf", "$ref"} & schema.keys():
            self._refuse(path, "schema must have a 'type' key.")
        self._count(path, schema)

    def _count(self, path: _Path, schema: Json) -> None:
        self._properties += len(schema.get("properties", ()))
        self._values += len(schema.get("enum", ()))
        depth = sum(name in ("properties", "items") for name in path)
        for number, maximum, what in (
            (depth, MAX_DEPTH, "levels of nesting"),
            (self._properties, MAX_PROPERTIES, "object properties"),
            (self._values, MAX_ENUM_VALUES, "enum values"),
        ):
            if number > maximum:
                self._refuse(path, f"{number} {what} exceeds limit of {maximum}.")

    def _refuse(self, path: _Path, problem: str, bare: bool = False) -> NoReturn:
        context = "" if bare else f"In context={path!r}, "
        message = f"Invalid schema for {self._subject}: {context}{problem}"
        raise Refusal(message, param=self._param, code=self._code)


def _subschemas(schema: Any, path: _Path) -> Iterator[tuple[_Path, Json]]:
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
