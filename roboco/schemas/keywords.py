"""The keywords of JSON Schemas that Roboco accepts, and the schemas in a schema."""

import re
from collections.abc import Iterator
from typing import Any

MAP_KEYWORDS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE_KEYWORDS = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
_ASSERTIONS = frozenset(
    {"type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"}
    | {"minProperties", "maxProperties", "required", "dependentRequired", "$ref"}
)
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
    | {"$schema", "format", "contentEncoding", "contentMediaType", "discriminator"}
)
"""Keywords that only describe."""
KEYWORDS = MAP_KEYWORDS | LIST_KEYWORDS | SINGLE_KEYWORDS | _ASSERTIONS | _ANNOTATIONS
_REFERENCE = re.compile(r"#/(\$defs|definitions)/([A-Za-z0-9_.~!$&'()*+,;=:@-]+)")
"""A reference whose name has no character that a URI must encode."""


def referenced(ref: object, root: dict[str, Any]) -> Any:
    """Return the schema that `#`, `#/$defs/NAME` or `#/definitions/NAME` leads to, or None for other references."""
    if ref == "#":
        return root
    found = _REFERENCE.fullmatch(ref) if isinstance(ref, str) else None
    named = root.get(found[1]) if found else None
    return named.get(found[2].replace("~1", "/").replace("~0", "~")) if found and isinstance(named, dict) else None


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each keyword that holds schemas, with the schemas by their paths. Values of a wrong type are left out."""
    for keyword, value in schema.items():
        if keyword in MAP_KEYWORDS and isinstance(value, dict):
            yield keyword, {f"{keyword}/{name}": one for name, one in value.items()}
        elif keyword in LIST_KEYWORDS and isinstance(value, list):
            yield keyword, {f"{keyword}/{index}": one for index, one in enumerate(value)}
        elif keyword in SINGLE_KEYWORDS:
            yield keyword, {keyword: value}


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and all schemas in it, without true and false."""
    if isinstance(schema, dict):
        yield schema
        for _, inner in subschemas(schema):
            for one in inner.values():
                yield from schemas_in(one)
