"""An upper bound of the work of a validation, computed before the library begins: it cannot be interrupted.

Alternatives and references that lead to one schema several times multiply the work at each level of the value. A level
of the value is bounded from the levels below it, so that schemas may refer to themselves.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from roboco.domain.pattern import weight
from roboco.schemas.keywords import referenced, schemas_in, subschemas

MAX_STEPS = 3_000_000
"""Steps of one validation. A step takes 20 to 100 ns."""
MAX_NESTED = 300
"""Schemas that are applied one inside another. Each takes 1.4 KB of the thread's stack."""
MAX_CHAINED = 64
"""Nested schemas that apply to one value, by references, `anyOf` and the like."""
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_EXCLUSIVE = frozenset({"properties", "additionalProperties", "prefixItems", "items"})
"""Keywords of which each value in a list or object meets one."""
_DEFINITIONS = frozenset({"$defs", "definitions"})
_CHARS_PER_STEP = 100
_STEPS_PER_FACTOR = 1000
"""Steps of `multipleOf`, which divides fractions of 300 digits."""
_STEPS_PER_OPTION = 4


class TooMuchWork(ValueError):
    """A validation may take too long. The text says why."""


class _Work(NamedTuple):
    """The work of a schema on a value, for each unit of the value's size."""

    steps: int
    nested: int


_FLAT = _Work(steps=1, nested=1)


def check_work(schema: dict[str, Any], value: Any) -> int:
    """Return the most steps that the validation takes for each unit of the value's size.

    Raise TooMuchWork if they are too many.
    """
    size, depth = _size_and_depth(value)
    every = list(schemas_in(schema))
    work: dict[int, _Work] = {}
    for _ in range(depth + 1):
        below, work = work, _Level(schema, work).work_of(every)
        if work == below:
            break
    steps, nested = work[id(schema)]
    if steps * size > MAX_STEPS or nested > MAX_NESTED:
        limits = f"{MAX_STEPS} steps, or {MAX_NESTED} schemas inside each other"
        raise TooMuchWork(f"a validation takes more than {limits}; make the schema or the value simpler")
    return steps


class _Level:
    """The work of schemas on the values of one level."""

    def __init__(self, root: dict[str, Any], below: dict[int, _Work]) -> None:
        self._root = root
        self._below = below
        self._known: dict[int, _Work] = {}
        self._open: set[int] = set()

    def work_of(self, schemas: list[dict[str, Any]]) -> dict[int, _Work]:
        """Return the work of each schema by its id."""
        return {id(schema): self._work(schema) for schema in schemas}

    def _work(self, schema: Any) -> _Work:
        if not isinstance(schema, dict):
            return _FLAT
        if id(schema) in self._known:
            return self._known[id(schema)]
        if id(schema) in self._open or len(self._open) == MAX_CHAINED:
            raise TooMuchWork(f"references lead back to themselves, or through more than {MAX_CHAINED} schemas")
        self._open.add(id(schema))
        parts = [*self._works_in(schema)]
        self._open.remove(id(schema))
        nested = 1 + max((part.nested for part in parts), default=0)
        found = _Work(_own_steps(schema) + sum(part.steps for part in parts), nested)
        self._known[id(schema)] = found
        return found

    def _works_in(self, schema: dict[str, Any]) -> Iterator[_Work]:
        """Yield the work of the schemas that apply to the same value, and of those that apply to values in it."""
        if "$ref" in schema:
            yield self._work(referenced(schema["$ref"], self._root))
        of_one = [_FLAT]
        for keyword, inner in subschemas(schema):
            if keyword in _IN_PLACE:
                yield from map(self._work, inner.values())
            elif keyword in _EXCLUSIVE:
                of_one += [self._below.get(id(one), _FLAT) for one in inner.values()]
            elif keyword not in _DEFINITIONS:
                works = [self._below.get(id(one), _FLAT) for one in inner.values()]
                yield _Work(*map(max, zip(_FLAT, *works, strict=True)))
        yield _Work(*map(max, zip(*of_one, strict=True)))


def _own_steps(schema: dict[str, Any]) -> int:
    names = sum(len(value) for value in schema.values() if isinstance(value, list | dict))
    options = _STEPS_PER_OPTION * len(schema["enum"]) if isinstance(schema.get("enum"), list) else 0
    pattern = weight(schema["pattern"]) if isinstance(schema.get("pattern"), str) else 0
    return 1 + len(schema) + names + options + pattern + (_STEPS_PER_FACTOR if "multipleOf" in schema else 0)


def _size_and_depth(value: Any) -> tuple[int, int]:
    """Return the size of a JSON value, in steps of a schema on each part of it, and its depth."""
    if isinstance(value, str):
        return 1 + len(value) // _CHARS_PER_STEP, 0
    if isinstance(value, int):
        bits = value.bit_length()  # longer ones than doubles hold are compared slowly, each with each for `uniqueItems`
        return (1 if bits <= 53 else bits * bits // 4), 0
    if not isinstance(value, list | dict):
        return 1, 0
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    inner = [_size_and_depth(part) for part in parts]
    return 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)
