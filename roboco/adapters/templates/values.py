"""Values of templates (only JSON), and the budget to which all work of a template is charged."""

import json
from collections.abc import Iterator
from typing import Any

MAX_TEXT_CHARS = 1024 * 1024
"""Maximum number of characters of a rendered prompt, and of each intermediate text of a template."""
MAX_NUMBER = 10**18
"""The largest number with which a template may calculate."""
MAX_STEPS = 50_000
"""Maximum number of steps of one rendering. Each expression, item and kilobyte of text costs some. About 50 ms."""
MAX_TOTAL_CHARS = 4 * MAX_TEXT_CHARS
"""Maximum number of characters that one rendering may create, intermediate texts included."""
_CHARS_PER_STEP = 1000
_MAX_INTEGER_BITS = 1000


class TemplateFailure(ValueError):
    """A template did something forbidden or undefined; the message contains the reason."""


class RenderBudget:
    """The budget of a rendering. `shared` is a budget of several renderings, to which this one charges as well."""

    def __init__(self, shared: "RenderBudget | None" = None, times: int = 1) -> None:
        self._shared = shared
        self._max_steps, self._max_chars = times * MAX_STEPS, times * MAX_TOTAL_CHARS
        self._steps_left, self._chars_left = self._max_steps, self._max_chars

    def charge_steps(self, steps: int = 1) -> None:
        """Charge work. Raise TemplateFailure if the budget is used up."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TemplateFailure(f"it takes more than {self._max_steps} steps; loop less")
        if self._shared is not None:
            self._shared.charge_steps(steps)

    def charge_text(self, characters: int, factor: int = 1) -> None:
        """Charge a text before it is created. `factor` is its memory use during creation relative to its size."""
        if characters > MAX_TEXT_CHARS:
            raise TemplateFailure(f"it makes a text longer than {MAX_TEXT_CHARS} characters")
        self._chars_left -= characters * factor
        if self._chars_left < 0:
            raise TemplateFailure(f"it makes texts of more than {self._max_chars} characters together")
        self.charge_steps(characters * factor // _CHARS_PER_STEP)


class Undefined:
    """The value of an undefined name. Every use of it fails, except `default` and `is defined`."""

    def __init__(self, reason: str, remedy: str = "; 'is defined' asks, and the filter 'default' replaces it") -> None:
        self.reason = reason
        self.remedy = remedy


def require_defined(value: Any) -> Any:
    """Return the value. Raise TemplateFailure if it is missing."""
    if isinstance(value, Undefined):
        raise TemplateFailure(f"{value.reason}{value.remedy}")
    return value


def get_attribute(value: Any, name: Any) -> Any:
    """Return the value under the name or number of the object or list, or Undefined. Methods are not accessible."""
    match require_defined(value), require_defined(name):
        case dict() as pairs, str() | int() | float() | None:
            return (
                pairs[name]
                if name in pairs
                else Undefined(f"the object has no attribute {preview(name)}, it is undefined")
            )
        case (list() | tuple() | str()) as items, int() if not isinstance(name, bool):
            return (
                items[name] if -len(items) <= name < len(items) else Undefined(f"there is no element {preview(name)}")
            )
        case _:
            return Undefined(f"{type_name(value)} has no attribute {preview(name)}, it is undefined")


def to_text(value: Any, budget: RenderBudget) -> str:
    """Return the value as a text, as Python writes it."""
    if isinstance(require_defined(value), str):
        return str(value)
    pieces: list[str] = []
    _write_text(value, pieces, budget)
    return "".join(pieces)


def _write_text(value: Any, pieces: list[str], budget: RenderBudget) -> None:
    """Append the pieces of the text; each is charged before it is created."""
    budget.charge_steps()
    match value:
        case str():
            budget.charge_text(len(value), 4)
            pieces.append(repr(value))
        case list() | tuple():
            opening, closing = "[]" if isinstance(value, list) else "()"
            pieces.append(opening)
            for index, item in enumerate(value):
                pieces += [", "] * (index > 0)
                _write_text(item, pieces, budget)
            pieces.append(f",{closing}" if isinstance(value, tuple) and len(value) == 1 else closing)
        case dict():
            pieces.append("{")
            for index, (name, item) in enumerate(value.items()):
                pieces += [", "] * (index > 0)
                _write_text(name, pieces, budget)
                pieces.append(": ")
                _write_text(item, pieces, budget)
            pieces.append("}")
        case _:
            piece = repr(_writable(value))
            budget.charge_text(len(piece))
            pieces.append(piece)


def _writable(value: Any) -> Any:
    """Return the value, which is neither a text nor a container. Raise TemplateFailure if writing it takes long."""
    if isinstance(require_defined(value), int) and value.bit_length() > _MAX_INTEGER_BITS:
        raise TemplateFailure(f"a number of {value.bit_length()} bits is not written, at most {_MAX_INTEGER_BITS} are")
    return value


def dump_json(value: Any, budget: RenderBudget, indent: int | None) -> str:
    """Return the value as JSON, as Jinja's `tojson` writes it."""
    written = _JsonWriter(budget, indent)
    written.add(require_defined(value))
    return "".join(written.pieces)


class _JsonWriter:
    """JSON with sorted names and escaped HTML characters. Each piece is charged, and the size is limited.

    Python's own encoder has no limit. With an indent, an item in 700 lists becomes a line of up to 5600 spaces. Its
    iterencode() could be stopped, but its time is proportional to the depth of the values: 0.9 s for 40,000 items in
    800 lists.
    """

    def __init__(self, budget: RenderBudget, indent: int | None) -> None:
        self.pieces: list[str] = []
        self._budget = budget
        self._indent = indent
        self._length = 0

    def add(self, value: Any, before: str = "", level: int = 0) -> None:
        """Append the text `before` and the pieces of the value, which is nested in `level` others."""
        self._budget.charge_steps()
        if not isinstance(value, list | tuple | dict):
            self._add_piece(before + self._scalar_json(value))
            return
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        self._add_piece(before + opening)
        between = self._line_break(level + 1) if value else ""
        for name, item in self._iter_items(value):
            self.add(item, between + name, level + 1)
            between = ", " if self._indent is None else f",{self._line_break(level + 1)}"
        self._add_piece((self._line_break(level) if value else "") + closing)

    def _line_break(self, level: int) -> str:
        return "" if self._indent is None else "\n" + " " * (self._indent * level)

    def _iter_items(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield each item with its name as it is written, or with "" in a list."""
        if not isinstance(value, dict):
            yield from (("", item) for item in value)
            return
        self._budget.charge_steps(len(value))
        for name in sorted(value):
            yield f"{self._quote(name if isinstance(name, str) else self._scalar_json(name))}: ", value[name]

    def _scalar_json(self, value: Any) -> str:
        return self._quote(value) if isinstance(value, str) else json.dumps(_writable(value))

    def _quote(self, text: str) -> str:
        self._budget.charge_text(len(text), 6)
        quoted = json.dumps(text)
        for sign in "<>&'":
            quoted = quoted.replace(sign, f"\\u{ord(sign):04x}")
        return quoted

    def _add_piece(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > MAX_TEXT_CHARS:
            raise TemplateFailure(f"it makes a text longer than {MAX_TEXT_CHARS} characters")
        self._budget.charge_text(len(piece))
        self.pieces.append(piece)


def is_equal(one: Any, other: Any, budget: RenderBudget) -> bool:
    """Return True if the values are equal."""
    budget.charge_steps()
    match require_defined(one), require_defined(other):
        case (list() | tuple(), list() | tuple()):
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(is_equal(first, second, budget) for first, second in pairs)
        case (dict(), dict()):
            budget.charge_steps(len(one) // 8)
            return one.keys() == other.keys() and all(is_equal(one[name], other[name], budget) for name in one)
        case (list() | tuple() | dict(), _) | (_, list() | tuple() | dict()):
            return False
        case (str(), str()):
            budget.charge_steps(len(one) // _CHARS_PER_STEP if len(one) == len(other) else 0)
            return bool(one == other)
        case _:
            return bool(one == other)


def require_number(value: Any) -> Any:
    """Return the value. Raise TemplateFailure if it is not a number with which a template may calculate."""
    if not isinstance(require_defined(value), int | float):
        raise TemplateFailure(f"{preview(value)} is no number")
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise TemplateFailure(f"numbers up to {MAX_NUMBER} are possible")
    return value


def require_text(value: Any) -> str:
    """Return the value. Raise TemplateFailure if it is not a text."""
    if not isinstance(require_defined(value), str):
        raise TemplateFailure(f"{preview(value)} is no text")
    return str(value)


def loop_items(value: Any, budget: RenderBudget) -> list[Any]:
    """Return the items, names or characters over which a loop over the value iterates."""
    if not isinstance(require_defined(value), list | tuple | dict | str):
        raise TemplateFailure(f"{preview(value)} is no list")
    budget.charge_steps(len(value))
    return list(value)


def type_name(value: Any) -> str:
    """Return the type of a value in a few words."""
    kinds = {dict: "an object", list: "a list", tuple: "a list", str: "a text", bool: "a boolean"}
    return kinds.get(type(value), "nothing" if value is None else "a number")


def preview(value: Any) -> str:
    """Return a few characters that represent the value."""
    if isinstance(value, list | tuple | dict | Undefined):
        return type_name(value) if not isinstance(value, Undefined) else "an undefined value"
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        return "a large number"
    return repr(value[:60]) if isinstance(value, str) else repr(value)
