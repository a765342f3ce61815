"""Values of templates (only JSON), and the budget to which all work of a template is charged."""

import json
from collections.abc import Iterator
from typing import Any

LONGEST = 1024 * 1024
"""Maximum number of characters of a rendered prompt, and of each intermediate text of a template."""
LARGEST = 10**18
"""The largest number with which a template may calculate."""
MOST_STEPS = 50_000
"""Maximum number of steps of one rendering. Each expression, item and kilobyte of text costs some. About 50 ms."""
MOST_TEXT = 4 * LONGEST
"""Maximum number of characters that one rendering may create, intermediate texts included."""
_PER_STEP = 1000
_MOST_BITS = 1000


class TemplateFailure(ValueError):
    """A template did something forbidden or undefined; the message contains the reason."""


class Allowance:
    """The budget of a rendering. `shared` is a budget of several renderings, to which this one charges as well."""

    def __init__(self, shared: "Allowance | None" = None, times: int = 1) -> None:
        self._shared = shared
        self._most_steps, self._most_text = times * MOST_STEPS, times * MOST_TEXT
        self._steps, self._text = self._most_steps, self._most_text

    def step(self, steps: int = 1) -> None:
        """Charge work. Raise TemplateFailure if the budget is used up."""
        self._steps -= steps
        if self._steps < 0:
            raise TemplateFailure(f"it takes more than {self._most_steps} steps; loop less")
        if self._shared is not None:
            self._shared.step(steps)

    def text(self, characters: int, factor: int = 1) -> None:
        """Charge a text before it is created. `factor` is its memory use during creation relative to its size."""
        if characters > LONGEST:
            raise TemplateFailure(f"it makes a text longer than {LONGEST} characters")
        self._text -= characters * factor
        if self._text < 0:
            raise TemplateFailure(f"it makes texts of more than {self._most_text} characters together")
        self.step(characters * factor // _PER_STEP)


class Missing:
    """The value of an undefined name. Every use of it fails, except `default` and `is defined`."""

    def __init__(self, reason: str, remedy: str = "; 'is defined' asks, and the filter 'default' replaces it") -> None:
        self.reason = reason
        self.remedy = remedy


def needed(value: Any) -> Any:
    """Return the value. Raise TemplateFailure if it is missing."""
    if isinstance(value, Missing):
        raise TemplateFailure(f"{value.reason}{value.remedy}")
    return value


def attribute(value: Any, name: Any) -> Any:
    """Return the value under the name or number of the object or list, or Missing. Methods are not accessible."""
    match needed(value), needed(name):
        case dict() as pairs, str() | int() | float() | None:
            return (
                pairs[name] if name in pairs else Missing(f"the object has no attribute {short(name)}, it is undefined")
            )
        case (list() | tuple() | str()) as items, int() if not isinstance(name, bool):
            return items[name] if -len(items) <= name < len(items) else Missing(f"there is no element {short(name)}")
        case _:
            return Missing(f"{kind(value)} has no attribute {short(name)}, it is undefined")


def text_of(value: Any, allowance: Allowance) -> str:
    """Return the value as a text, as Python writes it."""
    if isinstance(needed(value), str):
        return str(value)
    pieces: list[str] = []
    _write(value, pieces, allowance)
    return "".join(pieces)


def _write(value: Any, pieces: list[str], allowance: Allowance) -> None:
    """Append the pieces of the text; each is charged before it is created."""
    allowance.step()
    match value:
        case str():
            allowance.text(len(value), 4)
            pieces.append(repr(value))
        case list() | tuple():
            opening, closing = "[]" if isinstance(value, list) else "()"
            pieces.append(opening)
            for index, item in enumerate(value):
                pieces += [", "] * (index > 0)
                _write(item, pieces, allowance)
            pieces.append(f",{closing}" if isinstance(value, tuple) and len(value) == 1 else closing)
        case dict():
            pieces.append("{")
            for index, (name, item) in enumerate(value.items()):
                pieces += [", "] * (index > 0)
                _write(name, pieces, allowance)
                pieces.append(": ")
                _write(item, pieces, allowance)
            pieces.append("}")
        case _:
            piece = repr(_writable(value))
            allowance.text(len(piece))
            pieces.append(piece)


def _writable(value: Any) -> Any:
    """Return the value, which is neither a text nor a container. Raise TemplateFailure if writing it takes long."""
    if isinstance(needed(value), int) and value.bit_length() > _MOST_BITS:
        raise TemplateFailure(f"a number of {value.bit_length()} bits is not written, at most {_MOST_BITS} are")
    return value


def json_of(value: Any, allowance: Allowance, indent: int | None) -> str:
    """Return the value as JSON, as Jinja's `tojson` writes it."""
    written = _Json(allowance, indent)
    written.add(needed(value))
    return "".join(written.pieces)


class _Json:
    """JSON with sorted names, and with HTML's special characters escaped. Each piece is charged, and the size is
    limited.

    Python's own encoder has no limit. With an indent, an item in 700 lists becomes a line of up to 5600 spaces. Its
    iterencode() could be stopped, but its time is proportional to the depth of the values: 0.9 s for 40,000 items in
    800 lists.
    """

    def __init__(self, allowance: Allowance, indent: int | None) -> None:
        self.pieces: list[str] = []
        self._allowance = allowance
        self._indent = indent
        self._length = 0

    def add(self, value: Any, before: str = "", level: int = 0) -> None:
        """Append the text `before` and the pieces of the value, which is nested in `level` others."""
        self._allowance.step()
        if not isinstance(value, list | tuple | dict):
            self._piece(before + self._scalar(value))
            return
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        self._piece(before + opening)
        between = self._line(level + 1) if value else ""
        for name, item in self._named(value):
            self.add(item, between + name, level + 1)
            between = ", " if self._indent is None else f",{self._line(level + 1)}"
        self._piece((self._line(level) if value else "") + closing)

    def _line(self, level: int) -> str:
        return "" if self._indent is None else "\n" + " " * (self._indent * level)

    def _named(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield each item with its name as it is written, or with "" in a list."""
        if not isinstance(value, dict):
            yield from (("", item) for item in value)
            return
        self._allowance.step(len(value))
        for name in sorted(value):
            yield f"{self._quoted(name if isinstance(name, str) else self._scalar(name))}: ", value[name]

    def _scalar(self, value: Any) -> str:
        return self._quoted(value) if isinstance(value, str) else json.dumps(_writable(value))

    def _quoted(self, text: str) -> str:
        self._allowance.text(len(text), 6)
        quoted = json.dumps(text)
        for sign in "<>&'":
            quoted = quoted.replace(sign, f"\\u{ord(sign):04x}")
        return quoted

    def _piece(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > LONGEST:
            raise TemplateFailure(f"it makes a text longer than {LONGEST} characters")
        self._allowance.text(len(piece))
        self.pieces.append(piece)


def same(one: Any, other: Any, allowance: Allowance) -> bool:
    """Return True if the values are equal."""
    allowance.step()
    match needed(one), needed(other):
        case (list() | tuple(), list() | tuple()):
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(same(first, second, allowance) for first, second in pairs)
        case (dict(), dict()):
            allowance.step(len(one) // 8)
            return one.keys() == other.keys() and all(same(one[name], other[name], allowance) for name in one)
        case (list() | tuple() | dict(), _) | (_, list() | tuple() | dict()):
            return False
        case (str(), str()):
            allowance.step(len(one) // _PER_STEP if len(one) == len(other) else 0)
            return bool(one == other)
        case _:
            return bool(one == other)


def number(value: Any) -> Any:
    """Return the value. Raise TemplateFailure if it is not a number with which a template may calculate."""
    if not isinstance(needed(value), int | float):
        raise TemplateFailure(f"{short(value)} is no number")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise TemplateFailure(f"numbers up to {LARGEST} are possible")
    return value


def text(value: Any) -> str:
    """Return the value. Raise TemplateFailure if it is not a text."""
    if not isinstance(needed(value), str):
        raise TemplateFailure(f"{short(value)} is no text")
    return str(value)


def items_of(value: Any, allowance: Allowance) -> list[Any]:
    """Return the items, names or characters over which a loop over the value iterates."""
    if not isinstance(needed(value), list | tuple | dict | str):
        raise TemplateFailure(f"{short(value)} is no list")
    allowance.step(len(value))
    return list(value)


def kind(value: Any) -> str:
    """Return the type of a value in a few words."""
    kinds = {dict: "an object", list: "a list", tuple: "a list", str: "a text", bool: "a boolean"}
    return kinds.get(type(value), "nothing" if value is None else "a number")


def short(value: Any) -> str:
    """Return a few characters that represent the value."""
    if isinstance(value, list | tuple | dict | Missing):
        return kind(value) if not isinstance(value, Missing) else "an undefined value"
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a large number"
    return repr(value[:60]) if isinstance(value, str) else repr(value)
