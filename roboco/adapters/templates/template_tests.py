"""Tests and comparisons of templates: Jinja's by name and result, charged to the budget."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from roboco.adapters.templates.values import Allowance, Missing, TemplateFailure, needed, number, same, short

_PER_STEP = 1000
_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("lt", "lessthan", "<"), operator.lt),
    **dict.fromkeys(("le", "lteq", "<="), operator.le),
    **dict.fromkeys(("gt", "greaterthan", ">"), operator.gt),
    **dict.fromkeys(("ge", "gteq", ">="), operator.ge),
}
_EQUAL, _UNEQUAL = frozenset({"eq", "equalto", "=="}), frozenset({"ne", "!="})
_OF_VALUE: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "even": lambda value: number(value) % 2 == 0,
    "false": lambda value: value is False,
    "iterable": lambda value: isinstance(value, str | list | tuple | dict),
    "mapping": lambda value: isinstance(value, dict),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float),
    "odd": lambda value: number(value) % 2 == 1,
    "sequence": lambda value: isinstance(value, str | list | tuple | dict),
    "string": lambda value: isinstance(value, str),
    "true": lambda value: value is True,
}
"""Tests of a defined value, without an argument."""
TESTS = frozenset(
    {*_OF_VALUE, *_EQUAL, *_UNEQUAL, *_ORDERS, "in", "divisibleby", "defined", "undefined"} - {"lteq", "gteq"}
)
"""The tests by name. `lteq` and `gteq` are only names of operators."""


def holds(name: str, value: Any, args: Sequence[Any], allowance: Allowance) -> bool:
    """Return True if the value passes the test. Raise TemplateFailure if the test does not exist or does not apply."""
    if name in ("defined", "undefined"):
        return isinstance(value, Missing) == (name == "undefined")
    if name in _OF_VALUE:
        return _OF_VALUE[name](needed(value))
    if name not in TESTS:
        raise TemplateFailure(f"there is no test {name!r:.60}")
    if len(args) != 1:
        raise TemplateFailure(f"the test {name!r} takes one argument")
    match name:
        case "in":
            return contains(args[0], needed(value), allowance)
        case "divisibleby":
            return bool(number(value) % number(args[0]) == 0)
        case _:
            return compared(name, needed(value), args[0], allowance)


def compared(how: str, left: Any, right: Any, allowance: Allowance) -> bool:
    """Return the result of the comparison. Only texts or only numbers have an order."""
    if how in _EQUAL or how in _UNEQUAL:
        return same(left, right, allowance) == (how in _EQUAL)
    if isinstance(left, str) and isinstance(right, str):
        allowance.step(min(len(left), len(right)) // _PER_STEP)
    else:
        number(left), number(right)
    return bool(_ORDERS[how](left, right))


def contains(whole: Any, part: Any, allowance: Allowance) -> bool:
    """Return True if the text, object or list contains the part."""
    match needed(whole), needed(part):
        case str(), str():
            allowance.text(len(whole) + len(part))
            return part in whole
        case dict(), _:
            return key_of(part) in whole
        case ((list() | tuple()), _):
            return any(same(item, part, allowance) for item in whole)
        case _:
            raise TemplateFailure(f"{short(whole)} holds nothing, so not {short(part)}")


def key_of(value: Any) -> Any:
    """Return the value. Raise TemplateFailure if it cannot be a name in an object."""
    if isinstance(needed(value), list | tuple | dict):
        raise TemplateFailure(f"{short(value)} names nothing in an object")
    return value
