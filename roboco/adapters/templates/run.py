"""Rendering: walks the tree of a template over JSON values, and charges each node to a budget."""

import json
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import nodes

from roboco.adapters.templates.filters import FILTERS
from roboco.adapters.templates.template_tests import compared, contains, holds, key_of
from roboco.adapters.templates.values import (
    LONGEST,
    Allowance,
    Missing,
    TemplateFailure,
    attribute,
    items_of,
    needed,
    number,
    short,
    text_of,
)

MOST_RANGE = 1000
"""Maximum number of numbers in a `range`."""
_DEEPEST, _LONGEST_NAME = 5, 60
"""Maximum number of names in a path of the context, and of characters of each, for which a message names the remedy."""
Scope = ChainMap[str, Any]


class Run:
    """One rendering; `line` is the current line of the template."""

    def __init__(self, allowance: Allowance) -> None:
        self.line = 1
        self._allowance = allowance
        self._pieces: list[str] = []
        self._length = 0

    def text(self, template: nodes.Template, variables: Mapping[str, Any]) -> str:
        """Return the rendered template. Raise TemplateFailure, or an error of Python's operators."""
        self._block(template.body, ChainMap({}, dict(variables)))
        return "".join(self._pieces)

    def _block(self, block: Sequence[nodes.Node], scope: Scope) -> None:
        for node in block:
            self._allowance.step()
            self.line = node.lineno
            match node:
                case nodes.Output():
                    self._output(node, scope)
                case nodes.If():
                    self._if(node, scope)
                case nodes.For():
                    self._for(node, scope)
                case nodes.Assign():
                    self._assign(node.target, self._value(node.node, scope), scope)
                case _:
                    raise TemplateFailure(f"{type(node).__name__} is not possible")

    def _output(self, node: nodes.Output, scope: Scope) -> None:
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self._allowance.step()
                piece = part.data
            else:
                self.line = part.lineno
                piece = text_of(self._value(part, scope), self._allowance)
            self._length += len(piece)
            if self._length > LONGEST:
                raise TemplateFailure(f"it becomes longer than {LONGEST} characters")
            self._pieces.append(piece)

    def _if(self, node: nodes.If, scope: Scope) -> None:
        for one in (node, *node.elif_):
            if self._true(one.test, scope):
                self._block(one.body, scope)
                return
        self._block(node.else_, scope)

    def _for(self, node: nodes.For, scope: Scope) -> None:
        items = items_of(self._value(node.iter, scope), self._allowance)
        if (test := node.test) is not None:
            items = [item for item in items if self._true(test, self._inner(node, item, scope))]
        for index, item in enumerate(items):
            inner = self._inner(node, item, scope)
            inner["loop"] = _loop(index, len(items))
            self._block(node.body, inner)
        if not items:
            self._block(node.else_, scope.new_child())

    def _inner(self, node: nodes.For, item: Any, scope: Scope) -> Scope:
        self._allowance.step(2)
        inner = scope.new_child()
        self._assign(node.target, item, inner)
        return inner

    def _assign(self, target: nodes.Node, value: Any, scope: Scope) -> None:
        if isinstance(target, nodes.Name):
            scope[target.name] = needed(value)
            return
        names = target.items if isinstance(target, nodes.Tuple) else []
        values = items_of(value, self._allowance)
        if len(values) != len(names):
            raise TemplateFailure(f"{len(values)} values do not fit {len(names)} names")
        for name, one in zip(names, values, strict=True):
            self._assign(name, one, scope)

    def _true(self, node: nodes.Node, scope: Scope) -> bool:
        return bool(needed(self._value(node, scope)))

    def _value(self, node: nodes.Node, scope: Scope) -> Any:
        """Return the value of an expression, or Missing."""
        self._allowance.step()
        evaluate = _EXPRESSIONS.get(type(node))
        if evaluate is None:
            raise TemplateFailure(f"{type(node).__name__} is not possible")
        return evaluate(self, node, scope)

    def _some(self, found: Sequence[nodes.Node], scope: Scope) -> list[Any]:
        return [needed(self._value(node, scope)) for node in found]

    def _name(self, node: nodes.Name, scope: Scope) -> Any:
        return scope[node.name] if node.name in scope else Missing(f"{node.name[:80]!r} is undefined")

    def _dict(self, node: nodes.Dict, scope: Scope) -> Any:
        return {key_of(self._value(pair.key, scope)): needed(self._value(pair.value, scope)) for pair in node.items}

    def _getitem(self, node: nodes.Getitem, scope: Scope) -> Any:
        value = needed(self._value(node.node, scope))
        if not isinstance(node.arg, nodes.Slice):
            return self._attribute(node, value, self._value(node.arg, scope), scope)
        if not isinstance(value, str | list | tuple):
            raise TemplateFailure(f"{short(value)} has no slices")
        ends = (node.arg.start, node.arg.stop, node.arg.step)
        begin, end, step = (None if one is None else number(self._value(one, scope)) for one in ends)
        self._allowance.text(len(value))
        return value[begin:end:step]

    def _getattr(self, node: nodes.Getattr, scope: Scope) -> Any:
        return self._attribute(node, self._value(node.node, scope), node.attr, scope)

    def _attribute(self, node: nodes.Getattr | nodes.Getitem, value: Any, name: Any, scope: Scope) -> Any:
        """Return the attribute. If it is missing from the context of the task, the reason names the remedy."""
        found = attribute(value, name)
        if isinstance(found, Missing) and (path := _in_context(node)) and value is _within(path, scope.maps[-1]):
            return _missing_context(path)
        return found

    def _compare(self, node: nodes.Compare, scope: Scope) -> bool:
        left = needed(self._value(node.expr, scope))
        for operand in node.ops:
            right = needed(self._value(operand.expr, scope))
            if not self._ordered(operand.op, left, right):
                return False
            left = right
        return True

    def _ordered(self, how: str, left: Any, right: Any) -> bool:
        if how in ("in", "notin"):
            return contains(right, left, self._allowance) == (how == "in")
        return compared(how, left, right, self._allowance)

    def _and(self, node: nodes.And, scope: Scope) -> Any:
        left = needed(self._value(node.left, scope))
        return self._value(node.right, scope) if left else left

    def _or(self, node: nodes.Or, scope: Scope) -> Any:
        left = needed(self._value(node.left, scope))
        return left or self._value(node.right, scope)

    def _condition(self, node: nodes.CondExpr, scope: Scope) -> Any:
        if self._true(node.test, scope):
            return self._value(node.expr1, scope)
        return Missing("an 'if' without 'else' is undefined") if node.expr2 is None else self._value(node.expr2, scope)

    def _concat(self, node: nodes.Concat, scope: Scope) -> str:
        pieces = [text_of(self._value(one, scope), self._allowance) for one in node.nodes]
        self._allowance.text(sum(map(len, pieces)))
        return "".join(pieces)

    def _add(self, node: nodes.Add, scope: Scope) -> Any:
        left, right = self._some((node.left, node.right), scope)
        if isinstance(left, str) and isinstance(right, str):
            self._allowance.text(len(left) + len(right))
            return left + right
        if isinstance(left, list) and isinstance(right, list):
            self._allowance.step(len(left) + len(right))
            return left + right
        return number(number(left) + number(right))

    def _calculated(self, node: nodes.BinExpr, scope: Scope) -> Any:
        left, right = self._some((node.left, node.right), scope)
        return number(_NUMBERS[type(node)](number(left), number(right)))

    def _filter(self, node: nodes.Filter, scope: Scope) -> Any:
        value = None if node.node is None else self._value(node.node, scope)
        args = self._some(node.args, scope)
        named = {str(one.key): needed(self._value(one.value, scope)) for one in node.kwargs}
        try:
            return FILTERS[node.name](self._allowance, value, *args, **named)
        except TypeError as error:
            raise TemplateFailure(f"the filter {node.name!r} does not take this value or these arguments") from error

    def _test(self, node: nodes.Test, scope: Scope) -> bool:
        value = self._value(node.node, scope)
        args = self._some(node.args, scope)
        return holds(node.name, value, args, self._allowance)

    def _call(self, node: nodes.Call, scope: Scope) -> Any:
        args = self._some(node.args, scope)
        if node.kwargs:
            raise TemplateFailure("a call takes no named arguments")
        if not isinstance(node.node, nodes.Getattr):
            return self._range(args)
        value = needed(self._value(node.node.node, scope))
        if not isinstance(value, dict):
            raise TemplateFailure(f"{short(value)} is no object and has no {node.node.attr}()")
        if node.node.attr == "get" and 1 <= len(args) <= 2:
            return value.get(key_of(args[0]), args[1] if len(args) == 2 else None)
        if node.node.attr == "get" or args:
            raise TemplateFailure(f"{node.node.attr}() does not take {len(args)} arguments")
        self._allowance.step(len(value))
        return list({"items": value.items(), "keys": value.keys(), "values": value.values()}[node.node.attr])

    def _range(self, args: list[Any]) -> list[int]:
        if not 1 <= len(args) <= 3 or not all(isinstance(number(one), int) for one in args):
            raise TemplateFailure("range takes one to three whole numbers")
        found = range(*args)
        if len(found) > MOST_RANGE:
            raise TemplateFailure(f"range gives up to {MOST_RANGE} numbers")
        self._allowance.step(len(found))
        return list(found)


def _in_context(node: nodes.Node) -> list[str]:
    """Return the names that lead from `context` to this value, or [] if it is not written as a path."""
    names: list[str] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        name = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if not isinstance(name, str) or len(name) > _LONGEST_NAME or len(names) == _DEEPEST:
            return []
        names.append(name)
        node = node.node
    return names[::-1] if isinstance(node, nodes.Name) and node.name == "context" else []


def _within(path: list[str], variables: Mapping[str, Any]) -> Any:
    """Return the object of the task's context that should have the last name of the path, or Missing."""
    found = variables.get("context")
    for name in path[:-1]:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else Missing("")


def _missing_context(path: list[str]) -> Missing:
    value = "..."
    for name in reversed(path):
        value = f"{{{json.dumps(name)}: {value}}}"
    shown = ".".join(path)
    by_option = f"--context {shown}=... (command line) or " if len(path) == 1 else ""
    return Missing(f"the context of the task has no {short(shown)}", f": pass {by_option}context={value} (Python)")


def _loop(index: int, length: int) -> dict[str, Any]:
    places = {"index": index + 1, "index0": index, "revindex": length - index, "revindex0": length - index - 1}
    return {**places, "first": index == 0, "last": index == length - 1, "length": length}


_NUMBERS: dict[type[nodes.BinExpr], Callable[[Any, Any], Any]] = {
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}
_EXPRESSIONS: dict[type[nodes.Node], Callable[[Run, Any, Scope], Any]] = {
    nodes.Const: lambda run, node, scope: node.value,
    nodes.TemplateData: lambda run, node, scope: node.data,
    nodes.Name: Run._name,
    nodes.List: lambda run, node, scope: run._some(node.items, scope),
    nodes.Tuple: lambda run, node, scope: tuple(run._some(node.items, scope)),
    nodes.Dict: Run._dict,
    nodes.Getattr: Run._getattr,
    nodes.Getitem: Run._getitem,
    nodes.Compare: Run._compare,
    nodes.And: Run._and,
    nodes.Or: Run._or,
    nodes.Not: lambda run, node, scope: not run._true(node.node, scope),
    nodes.CondExpr: Run._condition,
    nodes.Concat: Run._concat,
    nodes.Add: Run._add,
    **dict.fromkeys(_NUMBERS, Run._calculated),
    nodes.Neg: lambda run, node, scope: -number(run._value(node.node, scope)),
    nodes.Pos: lambda run, node, scope: number(run._value(node.node, scope)),
    nodes.Filter: Run._filter,
    nodes.Test: Run._test,
    nodes.Call: Run._call,
}
