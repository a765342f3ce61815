"""Validation of one value against one JSON Schema of draft 2020-12, in a bounded number of steps.

Every applied schema, compared name, hashed item and searched character costs steps, so that no nesting of alternatives
and references takes long. Annotations, formats and unknown keywords have no effect.
"""

import json
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

from roboco.adapters.schema_rules import referenced
from roboco.domain.pattern import check_pattern, compiled_search, max_searched_chars, weight

MAX_STEPS = 50_000
"""Steps of one validation: up to 30 ms, and 50 ms more for the heaviest patterns."""
MAX_DEPTH = 200
"""Schemas that are applied one inside another."""
_MAX_SHOWN_CHARS = 60
_MAX_SHOWN_BITS = 200
_STEPS_PER_ERROR = 8
"""Steps to build an error message."""
_STEPS_PER_WEIGHT = 5
"""Steps to compile a pattern, for each unit of its weight."""
_CHARS_PER_STEP = 100
"""Characters, or characters times the weight of a pattern, that cost one step."""

JsonPath = tuple[str | int, ...]
KeywordCheck = Callable[["Validation", Any, Any, dict[str, Any], JsonPath], str]


class ValidationAborted(Exception):
    """The validation ended without a result: it takes too many steps or nests too deeply."""


MAX_CPU_SECONDS = 1.0
"""Seconds of processor time of one validation, whatever its steps cost."""


class Validation:
    """One validation of one value. It counts its steps."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MAX_STEPS
        self._checks = 0
        self._until = time.thread_time() + MAX_CPU_SECONDS
        self._depth = 0
        self._searchers: dict[str, Callable[[str], bool]] = {}

    def find_error(self, value: Any) -> str:
        """Return the first error with its path, or "". Raise ValidationAborted if a limit is reached before."""
        return self.apply(self._root, value, ())

    def apply(self, schema: Any, value: Any, path: JsonPath) -> str:
        """Return the first error of this value, or ""."""
        self.spend(1)
        if not isinstance(schema, dict):
            return f"{_path_text(path)}: {excerpt(value)} is not allowed here" if schema is False else ""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValidationAborted(f"more than {MAX_DEPTH} schemas lead into each other")
        for keyword, wanted in schema.items():
            if (check := _CHECKS.get(keyword)) is not None:
                self.spend(1)
                if wrong := check(self, value, wanted, schema, path):
                    self.spend(_STEPS_PER_ERROR)
                    self._depth -= 1
                    return wrong
        self._depth -= 1
        return ""

    def fits(self, schema: Any, value: Any) -> bool:
        """Return True if the value fits the schema."""
        return not self.apply(schema, value, ())

    def follow(self, ref: str) -> Any:
        """Return the schema that a reference leads to. Raise ValidationAborted if it leads to none."""
        found = referenced(ref, self._root)
        if not isinstance(found, dict | bool):
            raise ValidationAborted(f"the reference {ref!r:.80} leads to no schema in it")
        return found

    def spend(self, steps: int) -> None:
        """Count steps. Raise ValidationAborted if the validation takes too many of them, or too much time."""
        self._left -= steps
        if self._left < 0:
            raise ValidationAborted(
                f"a validation takes more than {MAX_STEPS} steps; make the schema or the value simpler"
            )
        self._checks += 1
        if self._checks % 64 == 0 and time.thread_time() > self._until:
            raise ValidationAborted(
                f"a validation takes more than {MAX_CPU_SECONDS:g} s; make the schema or the value simpler"
            )

    def is_equal(self, one: Any, other: Any) -> bool:
        """Return True if the JSON values are equal: 1 is 1.0, and neither is true."""
        self.spend(1)
        match one, other:
            case (bool(), _) | (_, bool()):
                return one is other
            case (str(), str()):
                self.spend(len(one) // _CHARS_PER_STEP if len(one) == len(other) else 0)
                return one == other
            case (list(), list()):
                return len(one) == len(other) and all(map(self.is_equal, one, other))
            case (dict(), dict()):
                self.spend(len(one))
                return one.keys() == other.keys() and all(self.is_equal(one[name], other[name]) for name in one)
            case (list() | dict(), _) | (_, list() | dict()):
                return False
            case _:
                return bool(one == other)

    def canonical_text(self, value: Any) -> str:
        """Return a text that equal values share, and no others."""
        self.spend(2)
        match value:
            case bool() | None:
                return repr(value)
            case int():
                self.spend(value.bit_length() // _CHARS_PER_STEP)
                return hex(value)
            case float():
                return hex(int(value)) if value.is_integer() else repr(value)
            case str():
                self.spend(len(value) // _CHARS_PER_STEP)
                return json.dumps(value)
            case list():
                return f"[{','.join(map(self.canonical_text, value))}]"
            case _:
                self.spend(len(value) + sum(map(len, value)) // _CHARS_PER_STEP)
                pairs = (f"{json.dumps(name)}:{self.canonical_text(value[name])}" for name in sorted(value))
                return f"{{{','.join(pairs)}}}"

    def matches(self, pattern: str, text: str) -> bool:
        """Return True if the pattern is found in the text. Raise ValidationAborted if the text is too long for it."""
        search = self._searchers.get(pattern)
        if search is None:
            self.spend(weight(pattern) * _STEPS_PER_WEIGHT)
            search = self._searchers[pattern] = compiled_search(pattern)
        self.spend(weight(pattern) * len(text) // _CHARS_PER_STEP)
        if len(text) > max_searched_chars(pattern):
            raise ValidationAborted(f"a text of {len(text)} characters is too long for the pattern {pattern!r:.80}")
        return search(text)


def excerpt(value: Any, depth: int = 2) -> str:
    """Return a short text of the value, however large it is."""
    match value:
        case str():
            return repr(value[:_MAX_SHOWN_CHARS]) + ("..." if len(value) > _MAX_SHOWN_CHARS else "")
        case int() if value.bit_length() > _MAX_SHOWN_BITS:
            return f"a number of {value.bit_length()} bits"
        case list() | dict() if depth == 0:
            return "..."
        case list():
            items = [excerpt(item, depth - 1) for item in value[:3]] + ["..."] * (len(value) > 3)
            return f"[{', '.join(items)}]"
        case dict():
            pairs = [f"{excerpt(name)}: {excerpt(item, depth - 1)}" for name, item in islice(value.items(), 3)]
            return f"{{{', '.join(pairs + ['...'] * (len(value) > 3))}}}"
        case _:
            return repr(value)


def shorten(text: str, max_chars: int) -> str:
    """Return the text without its middle if it is long."""
    half = max_chars // 2
    return text if len(text) <= max_chars else f"{text[: half - 3]} ... {text[len(text) - half + 2 :]}"


def _path_text(path: JsonPath) -> str:
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:_MAX_SHOWN_CHARS]}" for part in path)
    return shorten(f"${words}", 150)


def _has_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    match value:
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case _:
            return kind == "object" and isinstance(value, dict)


def _type(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    kinds = wanted if isinstance(wanted, list) else [wanted]
    if any(_has_type(value, kind) for kind in kinds):
        return ""
    return f"{_path_text(path)}: {excerpt(value)} is not of type {', '.join(map(repr, kinds))}"


def _enum(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if any(run.is_equal(value, one) for one in wanted):
        return ""
    return f"{_path_text(path)}: {excerpt(value)} is not one of {_excerpts(wanted)}"


def _const(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    return (
        ""
        if run.is_equal(value, wanted)
        else f"{_path_text(path)}: {excerpt(wanted)} was expected (found {excerpt(value)})"
    )


def _compared(holds: Callable[[Any, Any], bool], words: str, measure: Callable[[Any], Any], kind: Any) -> KeywordCheck:
    """Return the check of a limit on a measure of values of one type."""

    def check(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
        if not isinstance(value, kind) or isinstance(value, bool) or holds(measure(value), wanted):
            return ""
        return f"{_path_text(path)}: {excerpt(value)} {words} {excerpt(wanted)}"

    return check


def _multiple(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    run.spend(50)
    whole = (_exact(value) / _exact(wanted)).denominator == 1
    return "" if whole else f"{_path_text(path)}: {excerpt(value)} is not a multiple of {excerpt(wanted)}"


def _exact(number: float) -> Fraction:
    """Return the decimal value of the number as it is written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _pattern(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if not isinstance(value, str):
        return ""
    try:
        check_pattern(wanted)
    except ValueError:  # only a tool function of the operator has such a pattern, and it validates its arguments itself
        return ""
    return "" if run.matches(wanted, value) else f"{_path_text(path)}: {excerpt(value)} does not match {wanted!r:.80}"


def _required(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if not isinstance(value, dict):
        return ""
    run.spend(len(wanted) // 8)
    missing = next((name for name in wanted if name not in value), None)
    return "" if missing is None else f"{_path_text(path)}: {excerpt(missing)} is a required property"


def _properties(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if not isinstance(value, dict):
        return ""
    run.spend(len(wanted) // 8)
    wrong = (run.apply(one, value[name], (*path, name)) for name, one in wanted.items() if name in value)
    return _first(wrong)


def _additional(run: Validation, value: Any, wanted: Any, schema: dict[str, Any], path: JsonPath) -> str:
    if not isinstance(value, dict):
        return ""
    run.spend(len(value) // 8)
    extra = [name for name in value if name not in schema.get("properties", {})]
    if wanted is False and extra:
        return f"{_path_text(path)}: additional properties are not allowed ({_excerpts(extra)}: unexpected)"
    return _first(run.apply(wanted, value[name], (*path, name)) for name in extra)


def _property_names(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    return _first(run.apply(wanted, name, (*path, name)) for name in value) if isinstance(value, dict) else ""


def _dependent_required(run: Validation, value: Any, wanted: Any, schema: dict[str, Any], path: JsonPath) -> str:
    if not isinstance(value, dict):
        return ""
    run.spend(len(wanted) // 8)
    return _first(_required(run, value, names, schema, path) for name, names in wanted.items() if name in value)


def _dependent_schemas(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if not isinstance(value, dict):
        return ""
    run.spend(len(wanted) // 8)
    return _first(run.apply(one, value, path) for name, one in wanted.items() if name in value)


def _items(run: Validation, value: Any, wanted: Any, schema: dict[str, Any], path: JsonPath) -> str:
    if not isinstance(value, list):
        return ""
    begin = len(schema.get("prefixItems", ()))
    return _first(run.apply(wanted, value[index], (*path, index)) for index in range(begin, len(value)))


def _prefix(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if not isinstance(value, list):
        return ""
    pairs = enumerate(zip(wanted, value, strict=False))
    return _first(run.apply(one, item, (*path, index)) for index, (one, item) in pairs)


def _contains(run: Validation, value: Any, wanted: Any, schema: dict[str, Any], path: JsonPath) -> str:
    if not isinstance(value, list):
        return ""
    found = sum(run.fits(wanted, item) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    return "" if least <= found <= most else f"{_path_text(path)}: {found} items fit 'contains', not {least} to {most}"


def _unique(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    if not isinstance(value, list) or not wanted:
        return ""
    # Texts, not numbers: attackers can choose numbers whose hashes are all the same.
    spelled = set(map(run.canonical_text, value))
    return "" if len(spelled) == len(value) else f"{_path_text(path)}: {excerpt(value)} has equal items"


def _all(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    return _first(run.apply(one, value, path) for one in wanted)


def _any(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    reasons: list[str] = []
    for one in wanted:
        if not (wrong := run.apply(one, value, path)):
            return ""
        reasons.append(wrong)
    first = "; ".join(shorten(one, 100) for one in reasons[:3])
    return f"{_path_text(path)}: {excerpt(value)} fits no alternative: {first}"


def _one(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    fitting = sum(run.fits(one, value) for one in wanted)
    if fitting == 0:
        return _any(run, value, wanted, _, path)
    return "" if fitting == 1 else f"{_path_text(path)}: {excerpt(value)} fits {fitting} alternatives, but must fit one"


def _not(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    return f"{_path_text(path)}: {excerpt(value)} is of a kind that is excluded" if run.fits(wanted, value) else ""


def _if(run: Validation, value: Any, wanted: Any, schema: dict[str, Any], path: JsonPath) -> str:
    return run.apply(schema.get("then" if run.fits(wanted, value) else "else", True), value, path)


def _ref(run: Validation, value: Any, wanted: Any, _: Any, path: JsonPath) -> str:
    return run.apply(run.follow(wanted), value, path)


def _first(mistakes: Iterator[str]) -> str:
    return next(filter(None, mistakes), "")


def _excerpts(values: list[Any]) -> str:
    return ", ".join(excerpt(value) for value in values[:5]) + (", ..." if len(values) > 5 else "")


_NUMBER = int | float
_CHECKS: dict[str, KeywordCheck] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _compared(lambda one, limit: one >= limit, "is less than the minimum of", lambda it: it, _NUMBER),
    "maximum": _compared(lambda one, limit: one <= limit, "is more than the maximum of", lambda it: it, _NUMBER),
    "exclusiveMinimum": _compared(lambda one, limit: one > limit, "is not more than", lambda it: it, _NUMBER),
    "exclusiveMaximum": _compared(lambda one, limit: one < limit, "is not less than", lambda it: it, _NUMBER),
    "minLength": _compared(lambda one, limit: one >= limit, "is shorter than", len, str),
    "maxLength": _compared(lambda one, limit: one <= limit, "is longer than", len, str),
    "minItems": _compared(lambda one, limit: one >= limit, "has fewer items than", len, list),
    "maxItems": _compared(lambda one, limit: one <= limit, "has more items than", len, list),
    "minProperties": _compared(lambda one, limit: one >= limit, "has fewer properties than", len, dict),
    "maxProperties": _compared(lambda one, limit: one <= limit, "has more properties than", len, dict),
    "multipleOf": _multiple,
    "pattern": _pattern,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "prefixItems": _prefix,
    "items": _items,
    "contains": _contains,
    "uniqueItems": _unique,
    "allOf": _all,
    "anyOf": _any,
    "oneOf": _one,
    "not": _not,
    "if": _if,
    "$ref": _ref,
}
