"""Filters of templates: Jinja's by name and result, with a cost that is charged before the work."""

from collections.abc import Callable
from typing import Any

from jinja2.filters import do_title

from roboco.adapters.templates.selection import SELECTIONS, Filter, getter
from roboco.adapters.templates.values import (
    LARGEST,
    Allowance,
    Missing,
    TemplateFailure,
    items_of,
    json_of,
    needed,
    number,
    same,
    short,
    text,
    text_of,
)

_LONGEST_NUMBER = 40


def _cased(change: Callable[[str], str], factor: int = 3) -> Filter:
    def apply(allowance: Allowance, value: Any) -> str:
        found = text_of(value, allowance)
        allowance.text(len(found), factor)
        return change(found)

    return apply


def _trim(allowance: Allowance, value: Any, chars: str | None = None) -> str:
    found = text_of(value, allowance)
    allowance.text(len(found), 1 + len(chars or ""))
    return found.strip(chars)


def _default(allowance: Allowance, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    return default_value if isinstance(value, Missing) or (boolean and not value) else value


def _join(allowance: Allowance, value: Any, d: Any = "", attribute: str | None = None) -> str:
    items = items_of(value, allowance)
    get = getter(attribute)
    pieces = [text_of(get(item), allowance) for item in items]
    between = text_of(d, allowance)
    allowance.text(sum(map(len, pieces)) + len(between) * max(0, len(pieces) - 1))
    return between.join(pieces)


def _length(allowance: Allowance, value: Any) -> int:
    if not isinstance(needed(value), str | list | tuple | dict):
        raise TemplateFailure(f"{short(value)} has no length")
    return len(value)


def _first(allowance: Allowance, value: Any) -> Any:
    return next(iter(items_of(value, allowance)), Missing("the list is empty, its first item is undefined"))


def _last(allowance: Allowance, value: Any) -> Any:
    return next(iter(items_of(value, allowance)[::-1]), Missing("the list is empty, its last item is undefined"))


def _replace(allowance: Allowance, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    found, gone, put = (text_of(one, allowance) for one in (value, old, new))
    allowance.text(len(found))
    times = found.count(gone) if count is None else min(found.count(gone), max(0, int(number(count))))
    allowance.text(max(0, len(found) + times * (len(put) - len(gone))))
    return found.replace(gone, put, times)


def _tojson(allowance: Allowance, value: Any, indent: int | None = None) -> str:
    return json_of(value, allowance, None if indent is None else _small(indent, 8))


def _int(allowance: Allowance, value: Any, default: Any = 0) -> Any:
    return _converted(int, value, default)


def _float(allowance: Allowance, value: Any, default: Any = 0.0) -> Any:
    return _converted(float, value, default)


def _converted(to: Callable[[Any], Any], value: Any, default: Any) -> Any:
    if isinstance(needed(value), str) and len(value) > _LONGEST_NUMBER:
        return default
    try:
        found = to(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return found if -LARGEST <= found <= LARGEST else default


def _string(allowance: Allowance, value: Any) -> str:
    return text_of(value, allowance)


def _round(allowance: Allowance, value: Any, precision: int = 0) -> float:
    return float(round(number(value), _small(precision, 15)))


def _abs(allowance: Allowance, value: Any) -> Any:
    return abs(number(value))


def _reverse(allowance: Allowance, value: Any) -> Any:
    if isinstance(value, str):
        allowance.text(len(value))
        return value[::-1]
    return items_of(value, allowance)[::-1]


def _unique(allowance: Allowance, value: Any) -> list[Any]:
    found: list[Any] = []
    for item in items_of(value, allowance):
        if not any(same(item, known, allowance) for known in found):
            found.append(item)
    return found


def _sum(allowance: Allowance, value: Any, attribute: str | None = None) -> Any:
    total: Any = 0
    get = getter(attribute)
    for item in items_of(value, allowance):
        total = number(total + number(get(item)))
    return total


def _map(allowance: Allowance, value: Any, *, attribute: str) -> list[Any]:
    get = getter(attribute)
    return [needed(get(item)) for item in items_of(value, allowance)]


def _items(allowance: Allowance, value: Any) -> list[Any]:
    if not isinstance(needed(value), dict):
        raise TemplateFailure(f"{short(value)} is no object")
    allowance.step(len(value))
    return list(value.items())


def _indent(allowance: Allowance, value: Any, width: int = 4, first: bool = False, blank: bool = False) -> str:
    found, margin = text_of(value, allowance), " " * _small(width, 100)
    allowance.text(len(found) + len(margin) * (found.count("\n") + 1), 4)
    lines = found.split("\n")
    rest = [margin + line if line or blank else line for line in lines[1:]]
    return "\n".join([margin + lines[0] if first else lines[0], *rest])


def _truncate(allowance: Allowance, value: Any, length: int = 255, killwords: bool = False, end: str = "...") -> str:
    found, most = text_of(value, allowance), int(number(length))
    if len(found) <= most + 5:
        return found
    cut = found[: max(0, most - len(text(end)))]
    allowance.text(len(cut) + len(end))
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def _small(value: Any, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise TemplateFailure(f"{short(value)} is no whole number from 0 to {most}")
    return value


FILTERS: dict[str, Filter] = {
    **SELECTIONS,
    "abs": _abs,
    "capitalize": _cased(str.capitalize),
    "count": _length,
    "d": _default,
    "default": _default,
    "first": _first,
    "float": _float,
    "indent": _indent,
    "int": _int,
    "items": _items,
    "join": _join,
    "last": _last,
    "length": _length,
    "list": lambda allowance, value: items_of(value, allowance),
    "lower": _cased(str.lower),
    "map": _map,
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "string": _string,
    "sum": _sum,
    "title": _cased(do_title, 16),
    "tojson": _tojson,
    "trim": _trim,
    "truncate": _truncate,
    "unique": _unique,
    "upper": _cased(str.upper),
}
