"""Rules for untrusted JSON Schemas: the accepted keywords, references and sizes.

The library ignores unknown keywords, and finds the target of a reference in any place. Therefore both are refused.
"""

from collections.abc import Iterator
from typing import Any

from roboco.domain.canonical_json import canonical_json, validated_json
from roboco.domain.pattern import check_pattern, weight
from roboco.schemas.keywords import KEYWORDS, referenced, schemas_in, subschemas
from roboco.schemas.work import TooMuchWork, check_work

MAX_SCHEMA_CHARS = 64 * 1024
"""Characters of a schema as canonical JSON."""
MAX_PARTS = 2000
"""Objects and lists in a schema."""
MAX_PATTERN_WEIGHT = 2000
"""Weight of the distinct patterns of a schema: about 50 ms to compile."""


def find_schema_error(schema: Any) -> str:
    """Return why the rules refuse the schema as that of an object, or "" if they accept it."""
    if wrong := size_error(schema) or next(_errors_at(schema, schema, "#"), "") or _pattern_error(schema):
        return wrong
    if schema.get("type", "object") != "object":
        return f"must be the schema of an object (found type {schema['type']!r:.60})"
    try:
        check_work(schema, {})
    except TooMuchWork as error:
        return f"cannot be used: {error}"
    return ""


def shorten(text: str, max_chars: int) -> str:
    """Return the text without its middle if it is long."""
    half = max_chars // 2
    return text if len(text) <= max_chars else f"{text[: half - 3]} ... {text[len(text) - half + 2 :]}"


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


def _errors_at(schema: Any, root: dict[str, Any], at: str) -> Iterator[str]:
    """Yield the unsupported keywords and references of a schema and of those in it."""
    if not isinstance(schema, dict):
        return
    for keyword in schema:
        if not (keyword in KEYWORDS or keyword.startswith("x-") or (keyword == "$id" and schema is root)):
            possible = ", ".join(sorted(KEYWORDS))
            yield f"has {keyword!r:.60} at {at:.100}, which is not supported; possible are {possible}"
        elif keyword in ("$schema", "$id") and not isinstance(schema[keyword], str):  # the library does not see them
            yield f"has {keyword!r} at {at:.100}, which is no text"
    if "$ref" in schema and not isinstance(referenced(schema["$ref"], root), dict | bool):
        yield (
            f"has the reference {schema['$ref']!r:.80} at {at:.100}, which does not lead to a schema in it; "
            "possible are '#', '#/$defs/NAME' and '#/definitions/NAME'"
        )
    for _, inner in subschemas(schema):
        for path, one in inner.items():
            yield from _errors_at(one, root, f"{at}/{path}")


def _pattern_error(schema: dict[str, Any]) -> str:
    patterns = {one["pattern"] for one in schemas_in(schema) if isinstance(one.get("pattern"), str)}
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
