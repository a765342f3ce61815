"""schema_sample: a plausible value for a JSON Schema, such as the arguments of a tool call."""

import random
from collections.abc import Callable
from typing import Any, Final

Schema = dict[str, Any]

MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 50
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
    return _Sampler(schema if isinstance(schema, dict) else {}, rng).value(schema, 0)


class _Sampler:
    """Makes values for the parts of one schema, whose definitions they refer to."""

    def __init__(self, root: Schema, rng: random.Random) -> None:
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
            if isinstance(listed := schema.get(name), list) and listed:
                return self._rng.choice(listed)
        for name in ("anyOf", "oneOf", "allOf"):
            if isinstance(listed := schema.get(name), list) and listed:
                return self.value(listed[0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Schema, depth: int) -> Any:
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        makers: dict[Any, Callable[[Schema, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "integer": lambda part, _: int(self._number(part)),
            "number": lambda part, _: self._number(part),
            "boolean": lambda *_: True,
            "null": lambda *_: None,
        }
        fallback = self._object if "properties" in schema else self._text
        return makers.get(kind, fallback)(schema, depth)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = [name for name in schema.get("required") or () if isinstance(name, str)]
        return {name: self.value(properties.get(name), depth + 1) for name in required[:MAX_ITEMS]}

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and prefix:
            return [self.value(one, depth + 1) for one in prefix[:MAX_ITEMS]]
        count = min(MAX_ITEMS, max(1, _integer(schema.get("minItems"), 1)))
        return [self.value(schema.get("items"), depth + 1) for _ in range(count)]

    def _number(self, schema: Schema) -> float:
        step = schema.get("multipleOf")
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is None and isinstance(above := schema.get("exclusiveMinimum"), int | float):
            low = above + 1
        if high is None and isinstance(below := schema.get("exclusiveMaximum"), int | float):
            high = below - 1
        if isinstance(step, int | float) and step > 0:
            return -(-(low or step) // step) * step
        if isinstance(low, int | float):
            return min(low, high) if isinstance(high, int | float) else low
        return high if isinstance(high, int | float) and high < 1 else self._rng.randint(1, 9) if high is None else 1

    def _text(self, schema: Schema, _: int) -> str:
        text = _FORMATS.get(str(schema.get("format"))) or self._rng.choice(_WORDS)
        low, high = _integer(schema.get("minLength"), 0), _integer(schema.get("maxLength"), 10_000)
        return (text + "." * max(0, min(low, 10_000) - len(text)))[: max(0, high)]

    def _resolve(self, reference: str) -> Any:
        part: Any = self._root
        for name in reference.removeprefix("#/").split("/"):
            part = part.get(name) if isinstance(part, dict) else None
        return part


def _integer(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default
