"""Tests and comparisons of templates: Jinja's by name and result, charged to the budget."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from roboco.adapters.templates.values import (
    RenderBudget,
    TemplateFailure,
    Undefined,
    is_equal,
    preview,
    require_defined,
    require_number,
)

_CHARS_PER_STEP = 1000
_ORDER_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("lt", "lessthan", "<"), operator.lt),
    **dict.fromkeys(("le", "lteq", "<="), operator.le),
    **dict.fromkeys(("gt", "greaterthan", ">"), operator.gt),
    **dict.fromkeys(("ge", "gteq", ">="), operator.ge),
}
_EQUAL_NAMES, _UNEQUAL_NAMES = frozenset({"eq", "equalto", "=="}), frozenset({"ne", "!="})
_VALUE_TESTS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "even": lambda value: require_number(value) % 2 == 0,
    "false": lambda value: value is False,
    "iterable": lambda value: isinstance(value, str | list | tuple | dict),
    "mapping": lambda value: isinstance(value, dict),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float),
    "odd": lambda value: require_number(value) % 2 == 1,
    "sequence": lambda value: isinstance(value, str | list | tuple | dict),
    "string": lambda value: isinstance(value, str),
    "true": lambda value: value is True,
}
"""Tests of a defined value, without an argument."""
TESTS = frozenset(
    {*_VALUE_TESTS, *_EQUAL_NAMES, *_UNEQUAL_NAMES, *_ORDER_OPERATORS, "in", "divisibleby", "defined", "undefined"}
    - {"lteq", "gteq"}
)
"""The tests by name. `lteq` and `gteq` are only names of operators."""


def passes_test(name: str, value: Any, args: Sequence[Any], budget: RenderBudget) -> bool:
    """Return True if the value passes the test. Raise TemplateFailure if the test does not exist or does not apply."""
    if name in ("defined", "undefined"):
        return isinstance(value, Undefined) == (name == "undefined")
    if name in _VALUE_TESTS:
        return _VALUE_TESTS[name](require_defined(value))
    if name not in TESTS:
        raise TemplateFailure(f"there is no test {name!r:.60}")
    if len(args) != 1:
        raise TemplateFailure(f"the test {name!r} takes one argument")
    match name:
        case "in":
            return contains(args[0], require_defined(value), budget)
        case "divisibleby":
            return bool(require_number(value) % require_number(args[0]) == 0)
        case _:
            return compare(name, require_defined(value), args[0], budget)


def compare(operator_name: str, left: Any, right: Any, budget: RenderBudget) -> bool:
    """Return the result of the comparison. Only texts or only numbers have an order."""
    if operator_name in _EQUAL_NAMES or operator_name in _UNEQUAL_NAMES:
        return is_equal(left, right, budget) == (operator_name in _EQUAL_NAMES)
    if isinstance(left, str) and isinstance(right, str):
        budget.charge_steps(min(len(left), len(right)) // _CHARS_PER_STEP)
    else:
        require_number(left), require_number(right)
    return bool(_ORDER_OPERATORS[operator_name](left, right))


def contains(whole: Any, part: Any, budget: RenderBudget) -> bool:
    """Return True if the text, object or list contains the part."""
    match require_defined(whole), require_defined(part):
        case str(), str():
            budget.charge_text(len(whole) + len(part))
            return part in whole
        case dict(), _:
            return object_key(part) in whole
        case ((list() | tuple()), _):
            return any(is_equal(item, part, budget) for item in whole)
        case _:
            raise TemplateFailure(f"{preview(whole)} holds nothing, so not {preview(part)}")


def object_key(value: Any) -> Any:
    """Return the value. Raise TemplateFailure if it cannot be a name in an object."""
    if isinstance(require_defined(value), list | tuple | dict):
        raise TemplateFailure(f"{preview(value)} names nothing in an object")
    return value
