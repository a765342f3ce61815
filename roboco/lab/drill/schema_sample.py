"""schema_sample: a plausible value for a JSON Schema, such as the arguments of a tool call."""

import random
from typing import Any, Final

MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 50
MAX_CHARS: Final = 10_000
_FORMATS: Final = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "time": "03:04:05Z",
    "duration": "PT1H",
    "email": "drill@example.invalid",
    "uri": "https://example.invalid/drill",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "ipv4": "192.0.2.1",
}
_WORDS: Final = ("drill", "sample", "example", "trial")


def sample(schema: Any, rng: random.Random) -> Any:
    """Return a value that fits the schema. Patterns and rare keywords are ignored: such a value may not fit."""
    return _Sampler(schema, rng).value(schema, 0)


class _Sampler:
    """Makes values for the parts of one schema, whose definitions they refer to."""

    def __init__(self, root: Any, rng: random.Random) -> None:
        self._root = root
        self._rng = rng

    def value(self, schema: Any, depth: int) -> Any:
        """Return a value for a part of the schema."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return _WORDS[0]
        if "$ref" in schema:
            return self.value(self._resolve(str(schema["$ref"])), depth + 1)
        if "const" in schema:
            return schema["const"]
        for name in ("enum", "examples"):
            if schema.get(name):
                return self._rng.choice(schema[name])
        for name in ("anyOf", "oneOf", "allOf"):
            if schema.get(name):
                return self.value(schema[name][0], depth + 1)
        return self._of_type(schema, depth)

    def _resolve(self, reference: str) -> Any:
        part = self._root
        for name in reference.removeprefix("#/").split("/"):
            part = part.get(name) if isinstance(part, dict) else None
        return part

    def _of_type(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                properties = schema.get("properties") or {}
                names = (schema.get("required") or ())[:MAX_ITEMS]
                return {name: self.value(properties.get(name), depth + 1) for name in names}
            case "array":
                count = min(MAX_ITEMS, max(1, schema.get("minItems", 1)))
                parts = schema.get("prefixItems") or [schema.get("items")] * count
                return [self.value(part, depth + 1) for part in parts[:MAX_ITEMS]]
            case "integer":
                return int(self._number(schema))
            case "number":
                return self._number(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                text = _FORMATS.get(str(schema.get("format"))) or self._rng.choice(_WORDS)
                return text.ljust(min(schema.get("minLength", 0), MAX_CHARS), ".")[: schema.get("maxLength", MAX_CHARS)]

    def _number(self, schema: dict[str, Any]) -> float:
        low = schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else None)
        high = schema.get("maximum", schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else None)
        if step := schema.get("multipleOf"):
            return float(-(-(low or step) // step) * step)
        if low is None:
            low = self._rng.randint(1, 9)
        return float(low if high is None else min(low, high))
