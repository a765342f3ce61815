"""Reduction of an MCP server's schema to the keywords that Roboco accepts.

The rest still describes and checks the arguments. A reduced schema accepts all values that the original accepts: if the
loss of a keyword makes another one reject more, that one is removed too. Examples are `not`, `if` and `oneOf` around
it, and `additionalProperties` beside `patternProperties`. Each schema is visited at most twice.
"""

from collections.abc import Callable
from typing import Any

from roboco.adapters.json_schema import schema_error
from roboco.adapters.schema_rules import (
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    MAX_PATTERN_WEIGHT,
    SINGLE_KEYWORDS,
    is_accepted,
    referenced,
    size_error,
)
from roboco.domain.canonical_json import validated_json
from roboco.domain.pattern import check_pattern, weight

ReducedSchema = tuple[dict[str, Any], tuple[str, ...]]
"""A schema, and the paths of the removed parts."""
_MAY_REJECT_NULL = frozenset({"enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if"})
"""Keywords beside `type` that may reject null."""
_STRICTER_WITHOUT = {
    "properties": ("additionalProperties",),
    "patternProperties": ("additionalProperties",),
    "prefixItems": ("items",),
    "minContains": ("contains",),
    "if": ("then", "else"),
}
"""Keywords without which the schema rejects more values, and the keywords that are then removed with them."""
_STRICTER_WITH_LESS = {"not": ("not",), "if": ("if", "then", "else"), "contains": ("maxContains",)}
"""Keywords that reject more values if the schema in them accepts more, and the keywords that are then removed."""


def reduced_schema(schema: Any) -> ReducedSchema | str:
    """Return the schema without unaccepted keywords, or the reason why no part of it can be used."""
    wrong = schema_error(schema)
    if not wrong:
        return validated_json(schema), ()
    if size_error(schema):
        return wrong
    whole = validated_json(schema)
    kinds = whole.get("type")
    if isinstance(kinds, list) and "object" in kinds:
        whole["type"] = "object"  # arguments are always an object
    patterns = _PatternBudget()
    for with_references in (True, False):  # references may lead back to themselves
        reduction = _Reduction(whole, patterns.accept, with_references)
        reduced, _ = reduction.reduce(whole, "#")
        if not (wrong := schema_error(reduced)):
            return reduced, tuple(sorted({*reduction.left_out}))
    return wrong


class _PatternBudget:
    """Accepts patterns until they are too large together to be compiled."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._weight_left = MAX_PATTERN_WEIGHT

    def accept(self, pattern: str) -> bool:
        """Return True if the pattern is accepted. The result for a pattern never changes."""
        if pattern not in self._known:
            self._known[pattern] = self._compiles(pattern)
        return self._known[pattern]

    def _compiles(self, pattern: str) -> bool:
        if (heavy := weight(pattern)) > self._weight_left:
            return False
        self._weight_left -= heavy
        try:
            check_pattern(pattern)
        except ValueError:
            return False
        return True


class _Reduction:
    """One pass over a schema. A reference counts as a reference to a reduced schema."""

    def __init__(self, root: dict[str, Any], accept_pattern: Callable[[str], bool], with_references: bool) -> None:
        self.left_out: list[str] = []
        self._root = root
        self._accept_pattern = accept_pattern
        self._with_references = with_references

    def reduce(self, schema: Any, at: str) -> tuple[Any, bool]:
        """Return the reduced schema, and whether it may accept more than before."""
        if isinstance(schema, bool):
            return schema, False
        if not isinstance(schema, dict) or ("$id" in schema and schema is not self._root):
            self.left_out.append(at)
            return True, True
        kept: dict[str, Any] = {}
        gone: set[str] = set()
        wider: set[str] = set()
        for keyword, value in schema.items():
            if not self._accepts(keyword, value):
                gone.add(keyword)
                continue
            kept[keyword], more = self._reduce_value(keyword, value, f"{at}/{keyword}")
            if more:
                wider.add(keyword)
        gone |= _stricter_keywords(gone, wider)
        if "oneOf" in wider and "oneOf" in kept:
            gone |= _replace_one_of(kept)
        self.left_out += [f"{at}/{keyword}" for keyword in schema if keyword in gone]
        kept = {keyword: value for keyword, value in kept.items() if keyword not in gone}
        if "nullable" in gone and schema["nullable"] is True and schema is not self._root:
            kept = _accept_null(kept)
        return kept, bool(gone or wider)

    def _accepts(self, keyword: str, value: Any) -> bool:
        if keyword.startswith("x-") or keyword == "$id":
            return True
        if not is_accepted(keyword, value):
            return False
        if keyword == "$ref":
            return self._with_references and isinstance(referenced(value, self._root), dict | bool)
        return keyword != "pattern" or self._accept_pattern(value)

    def _reduce_value(self, keyword: str, value: Any, at: str) -> tuple[Any, bool]:
        """Return the reduced value of the keyword, and whether a schema in it may accept more than before."""
        if keyword in MAP_KEYWORDS:
            named = {name: self.reduce(one, f"{at}/{name}") for name, one in value.items()}
            return {name: one for name, (one, _) in named.items()}, any(more for _, more in named.values())
        if keyword in LIST_KEYWORDS:
            listed = [self.reduce(one, at) for one in value]  # their order means nothing, so no path names it
            return [one for one, _ in listed], any(more for _, more in listed)
        return self.reduce(value, at) if keyword in SINGLE_KEYWORDS else (value, keyword == "$ref")


def _stricter_keywords(gone: set[str], wider: set[str]) -> set[str]:
    """Return the keywords that would refuse more than before."""
    more = {other for keyword in gone for other in _STRICTER_WITHOUT.get(keyword, ())}
    return more.union(*(_STRICTER_WITH_LESS.get(keyword, ()) for keyword in wider))


def _replace_one_of(kept: dict[str, Any]) -> set[str]:
    """Make `anyOf` of `oneOf`, whose schemas may overlap now; leave it out if there is an `anyOf` beside it."""
    if "anyOf" not in kept:
        kept["anyOf"] = kept["oneOf"]
    return {"oneOf"}


def _accept_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with null accepted too, as OpenAPI's `nullable: true` means."""
    if _MAY_REJECT_NULL & schema.keys():
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = schema.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    return schema | {"type": [*listed, "null"]} if listed and "null" not in listed else schema
