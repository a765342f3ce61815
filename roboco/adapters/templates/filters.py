"""Filters of templates: Jinja's by name and result, with a cost that is charged before the work."""

from collections.abc import Callable
from typing import Any

from jinja2.filters import do_title

from roboco.adapters.templates.selection import SELECTION_FILTERS, Filter, attribute_getter
from roboco.adapters.templates.values import (
    MAX_NUMBER,
    RenderBudget,
    TemplateFailure,
    Undefined,
    dump_json,
    is_equal,
    loop_items,
    preview,
    require_defined,
    require_number,
    require_text,
    to_text,
)

_MAX_NUMBER_CHARS = 40


def _case_filter(change: Callable[[str], str], factor: int = 3) -> Filter:
    def apply(budget: RenderBudget, value: Any) -> str:
        found = to_text(value, budget)
        budget.charge_text(len(found), factor)
        return change(found)

    return apply


def _trim(budget: RenderBudget, value: Any, chars: str | None = None) -> str:
    found = to_text(value, budget)
    budget.charge_text(len(found), 1 + len(chars or ""))
    return found.strip(chars)


def _default(budget: RenderBudget, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    return default_value if isinstance(value, Undefined) or (boolean and not value) else value


def _join(budget: RenderBudget, value: Any, d: Any = "", attribute: str | None = None) -> str:
    items = loop_items(value, budget)
    get = attribute_getter(attribute)
    pieces = [to_text(get(item), budget) for item in items]
    between = to_text(d, budget)
    budget.charge_text(sum(map(len, pieces)) + len(between) * max(0, len(pieces) - 1))
    return between.join(pieces)


def _length(budget: RenderBudget, value: Any) -> int:
    if not isinstance(require_defined(value), str | list | tuple | dict):
        raise TemplateFailure(f"{preview(value)} has no length")
    return len(value)


def _first(budget: RenderBudget, value: Any) -> Any:
    return next(iter(loop_items(value, budget)), Undefined("the list is empty, its first item is undefined"))


def _last(budget: RenderBudget, value: Any) -> Any:
    return next(iter(loop_items(value, budget)[::-1]), Undefined("the list is empty, its last item is undefined"))


def _replace(budget: RenderBudget, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    found, gone, put = (to_text(one, budget) for one in (value, old, new))
    budget.charge_text(len(found))
    times = found.count(gone) if count is None else min(found.count(gone), max(0, int(require_number(count))))
    budget.charge_text(max(0, len(found) + times * (len(put) - len(gone))))
    return found.replace(gone, put, times)


def _tojson(budget: RenderBudget, value: Any, indent: int | None = None) -> str:
    return dump_json(value, budget, None if indent is None else _bounded_int(indent, 8))


def _int(budget: RenderBudget, value: Any, default: Any = 0) -> Any:
    return _convert(int, value, default)


def _float(budget: RenderBudget, value: Any, default: Any = 0.0) -> Any:
    return _convert(float, value, default)


def _convert(to: Callable[[Any], Any], value: Any, default: Any) -> Any:
    if isinstance(require_defined(value), str) and len(value) > _MAX_NUMBER_CHARS:
        return default
    try:
        found = to(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return found if -MAX_NUMBER <= found <= MAX_NUMBER else default


def _string(budget: RenderBudget, value: Any) -> str:
    return to_text(value, budget)


def _round(budget: RenderBudget, value: Any, precision: int = 0) -> float:
    return float(round(require_number(value), _bounded_int(precision, 15)))


def _abs(budget: RenderBudget, value: Any) -> Any:
    return abs(require_number(value))


def _reverse(budget: RenderBudget, value: Any) -> Any:
    if isinstance(value, str):
        budget.charge_text(len(value))
        return value[::-1]
    return loop_items(value, budget)[::-1]


def _unique(budget: RenderBudget, value: Any) -> list[Any]:
    found: list[Any] = []
    for item in loop_items(value, budget):
        if not any(is_equal(item, known, budget) for known in found):
            found.append(item)
    return found


def _sum(budget: RenderBudget, value: Any, attribute: str | None = None) -> Any:
    total: Any = 0
    get = attribute_getter(attribute)
    for item in loop_items(value, budget):
        total = require_number(total + require_number(get(item)))
    return total


def _map(budget: RenderBudget, value: Any, *, attribute: str) -> list[Any]:
    get = attribute_getter(attribute)
    return [require_defined(get(item)) for item in loop_items(value, budget)]


def _items(budget: RenderBudget, value: Any) -> list[Any]:
    if not isinstance(require_defined(value), dict):
        raise TemplateFailure(f"{preview(value)} is no object")
    budget.charge_steps(len(value))
    return list(value.items())


def _indent(budget: RenderBudget, value: Any, width: int = 4, first: bool = False, blank: bool = False) -> str:
    found, margin = to_text(value, budget), " " * _bounded_int(width, 100)
    budget.charge_text(len(found) + len(margin) * (found.count("\n") + 1), 4)
    lines = found.split("\n")
    rest = [margin + line if line or blank else line for line in lines[1:]]
    return "\n".join([margin + lines[0] if first else lines[0], *rest])


def _truncate(budget: RenderBudget, value: Any, length: int = 255, killwords: bool = False, end: str = "...") -> str:
    found, most = to_text(value, budget), int(require_number(length))
    if len(found) <= most + 5:
        return found
    cut = found[: max(0, most - len(require_text(end)))]
    budget.charge_text(len(cut) + len(end))
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def _bounded_int(value: Any, maximum: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= maximum:
        raise TemplateFailure(f"{preview(value)} is no whole number from 0 to {maximum}")
    return value


FILTERS: dict[str, Filter] = {
    **SELECTION_FILTERS,
    "abs": _abs,
    "capitalize": _case_filter(str.capitalize),
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
    "list": lambda budget, value: loop_items(value, budget),
    "lower": _case_filter(str.lower),
    "map": _map,
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "string": _string,
    "sum": _sum,
    "title": _case_filter(do_title, 16),
    "tojson": _tojson,
    "trim": _trim,
    "truncate": _truncate,
    "unique": _unique,
    "upper": _case_filter(str.upper),
}
