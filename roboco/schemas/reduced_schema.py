"""Reduction of an MCP server's schema to the keywords that Roboco accepts.

The rest still describes and checks the arguments. A reduced schema accepts all values that the original accepts: if the
loss of a keyword may make another one reject more, that one is removed too. Examples are `not`, `if` and `oneOf` in any
place, and `additionalProperties` beside `patternProperties`.
"""

from dataclasses import dataclass, field
from typing import Any

from roboco.domain.canonical_json import validated_json
from roboco.schemas.json_schema import schema_error
from roboco.schemas.keywords import LIST_KEYWORDS, MAP_KEYWORDS, SINGLE_KEYWORDS, referenced
from roboco.schemas.rules import size_error

_MAY_REJECT_NULL = frozenset({"enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if"})
"""Keywords beside `type` that may reject null."""
_STRICTER_WITHOUT = {
    "properties": "additionalProperties",
    "patternProperties": "additionalProperties",
    "prefixItems": "items",
    "minContains": "contains",
}
"""Keywords without which the schema rejects more values, and the keyword that is then removed with each."""
_STRICTER_WITH_LESS = frozenset({"not", "if", "then", "else", "maxContains", "oneOf"})
"""Keywords that may reject more values if a schema in them accepts more. `anyOf` replaces `oneOf`."""


def reduced_schema(schema: Any) -> tuple[dict[str, Any], tuple[str, ...]] | str:
    """Return the schema without unaccepted keywords, with their paths, or the reason why no part of it can be used."""
    if not (wrong := schema_error(schema)):
        return validated_json(schema), ()
    if size_error(schema):
        return wrong
    whole = validated_json(schema)
    kinds = whole.get("type")
    if isinstance(kinds, list) and "object" in kinds:
        whole["type"] = "object"  # arguments are always an object
    accepted: dict[tuple[str, int], bool] = {}
    for removed in (frozenset[str](), _STRICTER_WITH_LESS, _STRICTER_WITH_LESS | {"$ref", "pattern"}):
        reduction = _Reduction(whole, removed, accepted)
        reduced = reduction.reduce(whole, "#")
        if (removed or not reduction.left_out) and not (wrong := schema_error(reduced)):
            return reduced, tuple(sorted(reduction.left_out))
    return wrong


@dataclass
class _Reduction:
    """One pass over a schema."""

    root: dict[str, Any]
    removed: frozenset[str]
    accepted: dict[tuple[str, int], bool]
    """By keyword and id of its value: True if it is accepted. It is of all passes."""
    left_out: set[str] = field(default_factory=set)

    def reduce(self, schema: Any, at: str) -> Any:
        """Return the reduced schema at this path."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or ("$id" in schema and schema is not self.root):
            self.left_out.add(at)
            return True
        gone = {keyword for keyword, value in schema.items() if not self._accepts(keyword, value)}
        gone |= {_STRICTER_WITHOUT[keyword] for keyword in gone & _STRICTER_WITHOUT.keys()} & schema.keys()
        self.left_out |= {f"{at}/{keyword}" for keyword in gone}
        kept = {
            keyword: self._reduce_value(keyword, value, f"{at}/{keyword}")
            for keyword, value in schema.items()
            if keyword not in gone
        }
        if "oneOf" in gone and "anyOf" not in schema and isinstance(schema["oneOf"], list) and schema["oneOf"]:
            kept["anyOf"] = self._reduce_value("oneOf", schema["oneOf"], f"{at}/oneOf")
        nullable = schema.get("nullable") is True and schema is not self.root
        return _accept_null(kept) if nullable else kept

    def _accepts(self, keyword: str, value: Any) -> bool:
        if keyword in self.removed:
            return False
        if keyword in MAP_KEYWORDS:
            return isinstance(value, dict)
        if keyword in LIST_KEYWORDS:
            return isinstance(value, list) and bool(value)
        if keyword in SINGLE_KEYWORDS:
            return True
        if keyword == "$id":
            return isinstance(value, str)
        if keyword == "$ref":
            return isinstance(referenced(value, self.root), dict | bool)
        key = (keyword, id(value))
        if key not in self.accepted:
            self.accepted[key] = not schema_error({"properties": {"x": {keyword: value}}})
        return self.accepted[key]

    def _reduce_value(self, keyword: str, value: Any, at: str) -> Any:
        if keyword in MAP_KEYWORDS:
            return {name: self.reduce(one, f"{at}/{name}") for name, one in value.items()}
        if keyword in LIST_KEYWORDS:
            return [self.reduce(one, at) for one in value]  # their order means nothing, so no path names it
        return self.reduce(value, at) if keyword in SINGLE_KEYWORDS else value


def _accept_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with null accepted too, as OpenAPI's `nullable: true` means."""
    if _MAY_REJECT_NULL & schema.keys():
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = schema.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    return schema | {"type": [*listed, "null"]} if listed and "null" not in listed else schema
