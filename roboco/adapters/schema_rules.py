"""Rules for untrusted JSON Schemas: the accepted keywords, references and sizes.

A reference may lead only to places that these rules have checked. An unknown keyword is refused, because a validator
ignores it silently, and because a reference could lead into it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from roboco.domain.canonical_json import canonical_json, validated_json
from roboco.domain.pattern import MAX_PATTERN_CHARS, check_pattern, weight

MAX_SCHEMA_CHARS = 64 * 1024
"""Characters of a schema as canonical JSON."""
MAX_PARTS = 2000
"""Objects and lists in a schema."""
MAX_CHAINED = 64
"""Nested schemas that apply to one value, by references, `anyOf` and the like."""
MAX_PATTERN_WEIGHT = 2000
"""Weight of the distinct patterns of a schema: about 50 ms to compile."""
TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
MAP_KEYWORDS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE_KEYWORDS = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
_IN_PLACE_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
    | {"$schema", "format", "contentEncoding", "contentMediaType", "discriminator"}
)
"""Keywords that only describe: their values are not read."""


def _count(value: Any) -> str:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value % 1 == 0
    return "" if whole else "must be a whole number from 0"


def _number(value: Any) -> str:
    return "" if isinstance(value, int | float) and not isinstance(value, bool) else "must be a number"


def _factor(value: Any) -> str:
    return _number(value) or ("" if value > 0 else "must be above 0")


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _names(value: Any) -> str:
    sound = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return "" if sound else "must be a list of names"


def _names_by_name(value: Any) -> str:
    sound = isinstance(value, dict) and not any(_names(names) for names in value.values())
    return "" if sound else "must be an object of lists of names"


def _type(value: Any) -> str:
    kinds = value if isinstance(value, list) else [value]
    sound = kinds and len(kinds) <= len(TYPES) and all(isinstance(kind, str) and kind in TYPES for kind in kinds)
    return "" if sound else f"must be one of {', '.join(sorted(TYPES))}, or a list of some of them"


def _pattern(value: Any) -> str:
    return (
        ""
        if isinstance(value, str) and len(value) <= MAX_PATTERN_CHARS
        else f"must be a string of up to {MAX_PATTERN_CHARS} characters"
    )


def _list(value: Any) -> str:
    return "" if isinstance(value, list) else "must be a list"


def _schemas(value: Any) -> str:
    return "" if isinstance(value, list) and value else "must be a list of schemas"


def _schemas_by_name(value: Any) -> str:
    return "" if isinstance(value, dict) else "must be an object of schemas"


def _any(value: Any) -> str:
    return ""


_COUNT_KEYWORDS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains")
_RULES: dict[str, Callable[[Any], str]] = {
    "type": _type,
    "enum": _list,
    "const": _any,
    "multipleOf": _factor,
    "pattern": _pattern,
    "uniqueItems": _flag,
    "required": _names,
    "dependentRequired": _names_by_name,
    "$ref": lambda value: "" if isinstance(value, str) else "must be a string",
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys((*_COUNT_KEYWORDS, "maxContains"), _count),
    **dict.fromkeys(MAP_KEYWORDS, _schemas_by_name),
    **dict.fromkeys(LIST_KEYWORDS, _schemas),
    **dict.fromkeys(SINGLE_KEYWORDS, _any),
    **dict.fromkeys(_ANNOTATIONS, _any),
}
"""Each keyword with the check of its value."""


def find_schema_error(schema: Any) -> str:
    """Return why the schema is refused as the schema of an object, or "" if it is accepted."""
    if large := size_error(schema):
        return large
    if wrong := next(_schema_errors(schema, schema, "#"), ""):
        return wrong
    if wrong := _pattern_error(_patterns(schema)):
        return wrong
    if schema.get("type", "object") != "object":
        return f"must be the schema of an object (found type {schema['type']!r:.60})"
    return _ReferenceLoops(schema).error()


def is_accepted(keyword: str, value: Any) -> bool:
    """Return True if the keyword may have this value. Patterns, references and schemas in it are not read."""
    rule = _RULES.get(keyword)
    return rule is not None and not rule(value)


def referenced(ref: str, root: Any) -> Any:
    """Return the schema that `#`, `#/$defs/NAME` or `#/definitions/NAME` leads to, or None for other references."""
    if ref == "#":
        return root
    for place in ("$defs", "definitions"):
        if ref.startswith(f"#/{place}/") and isinstance(root, dict) and isinstance(root.get(place), dict):
            name = ref.removeprefix(f"#/{place}/")
            return None if "/" in name else root[place].get(name.replace("~1", "/").replace("~0", "~"))
    return None


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield each schema directly in a sound one, with its keyword and its path from there."""
    for keyword, value in schema.items():
        if keyword in MAP_KEYWORDS:
            yield from ((keyword, f"{keyword}/{name}", one) for name, one in value.items())
        elif keyword in LIST_KEYWORDS:
            yield from ((keyword, f"{keyword}/{index}", one) for index, one in enumerate(value))
        elif keyword in SINGLE_KEYWORDS:
            yield keyword, keyword, value


def size_error(schema: Any) -> str:
    """Return why the schema is no JSON object or too large, or "" if it is fine."""
    if not isinstance(schema, dict):
        return "must be an object"
    try:
        size = len(canonical_json(validated_json(schema)))
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    parts = _parts(schema)
    if size > MAX_SCHEMA_CHARS or parts > MAX_PARTS:
        return f"has {size} characters and {parts} parts, at most {MAX_SCHEMA_CHARS} and {MAX_PARTS} are accepted"
    return ""


def _parts(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + sum(_parts(item) for item in (value.values() if isinstance(value, dict) else value))


def _schema_errors(schema: Any, root: dict[str, Any], at: str) -> Iterator[str]:
    """Yield the errors of a schema and of those in it. Its depth is bounded, because it is JSON."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"is no JSON Schema: {at:.100} must be an object, true or false"
        return
    for keyword, value in schema.items():
        if not keyword.startswith("x-") and not (keyword == "$id" and schema is root):
            yield from _keyword_errors(keyword, value, at)
    if "$ref" in schema and not isinstance(referenced(schema["$ref"], root), dict | bool):
        yield (
            f"has the reference {schema['$ref']!r:.80} at {at:.100}, which does not lead to a schema in it; "
            "possible are '#', '#/$defs/NAME' and '#/definitions/NAME'"
        )
    for _, path, one in subschemas(schema):
        yield from _schema_errors(one, root, f"{at}/{path}")


def _keyword_errors(keyword: str, value: Any, at: str) -> Iterator[str]:
    if (rule := _RULES.get(keyword)) is None:
        yield f"has {keyword!r:.60} at {at:.100}, which is not supported; possible are {', '.join(sorted(_RULES))}"
    elif wrong := rule(value):
        yield f"is no JSON Schema: {keyword} at {at:.100} {wrong} (found {value!r:.60})"


def _patterns(schema: Any) -> set[str]:
    """Return the patterns of a sound schema."""
    if not isinstance(schema, dict):
        return set()
    inner = [_patterns(one) for _, _, one in subschemas(schema)]
    return set().union({schema["pattern"]} if "pattern" in schema else (), *inner)


def _pattern_error(patterns: set[str]) -> str:
    if (heavy := sum(map(weight, patterns))) > MAX_PATTERN_WEIGHT:  # before the first one is compiled
        return (
            f"has patterns that weigh {heavy} together, at most {MAX_PATTERN_WEIGHT} is accepted; repeat less in them"
        )
    for pattern in patterns:
        try:
            check_pattern(pattern)
        except ValueError as error:
            return f"has the pattern {pattern!r:.80}, which is {error}"
    return ""


class _ReferenceLoops:
    """Finds references that lead back to themselves without a step into the value, and long chains of them."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._heights: dict[int, int] = {}
        self._open: list[int] = []

    def error(self) -> str:
        """Return the error, or "" if there is none."""
        waiting: list[Any] = [self._root]
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, dict):
                if self._height(schema) > MAX_CHAINED:
                    return f"has references that lead back to themselves, or through more than {MAX_CHAINED} schemas"
                waiting += [one for _, _, one in subschemas(schema)]
        return ""

    def _height(self, schema: Any) -> int:
        """Return the number of schemas that apply to one value below this one, or more than the maximum for a loop."""
        if not isinstance(schema, dict):
            return 0
        if id(schema) in self._heights:
            return self._heights[id(schema)]
        if id(schema) in self._open or len(self._open) > MAX_CHAINED:
            return MAX_CHAINED + 1
        self._open.append(id(schema))
        below = [one for keyword, _, one in subschemas(schema) if keyword in _IN_PLACE_KEYWORDS]
        below += [referenced(schema["$ref"], self._root)] if "$ref" in schema else []
        height = 1 + max((self._height(one) for one in below), default=0)
        self._open.pop()
        self._heights[id(schema)] = height
        return height
