"""Rendering: walks the tree of a template over JSON values, and charges each node to a budget."""

import json
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import nodes

from roboco.adapters.templates.filters import FILTERS
from roboco.adapters.templates.template_tests import compare, contains, object_key, passes_test
from roboco.adapters.templates.values import (
    MAX_TEXT_CHARS,
    RenderBudget,
    TemplateFailure,
    Undefined,
    get_attribute,
    loop_items,
    preview,
    require_defined,
    require_number,
    to_text,
)

MAX_RANGE_LENGTH = 1000
"""Maximum number of numbers in a `range`."""
_MAX_PATH_DEPTH, _MAX_PATH_NAME_CHARS = 5, 60
"""Maximum number of names in a path of the context, and of characters of each, for which a message names the remedy."""
VariableScope = ChainMap[str, Any]


class Renderer:
    """One rendering; `line` is the current line of the template."""

    def __init__(self, budget: RenderBudget) -> None:
        self.line = 1
        self._budget = budget
        self._pieces: list[str] = []
        self._rendered_chars = 0

    def render(self, template: nodes.Template, variables: Mapping[str, Any]) -> str:
        """Return the rendered template. Raise TemplateFailure, or an error of Python's operators."""
        self._render_block(template.body, ChainMap({}, dict(variables)))
        return "".join(self._pieces)

    def _render_block(self, block: Sequence[nodes.Node], scope: VariableScope) -> None:
        for node in block:
            self._budget.charge_steps()
            self.line = node.lineno
            match node:
                case nodes.Output():
                    self._render_output(node, scope)
                case nodes.If():
                    self._render_if(node, scope)
                case nodes.For():
                    self._render_for(node, scope)
                case nodes.Assign():
                    self._assign(node.target, self._evaluate(node.node, scope), scope)
                case _:
                    raise TemplateFailure(f"{type(node).__name__} is not possible")

    def _render_output(self, node: nodes.Output, scope: VariableScope) -> None:
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self._budget.charge_steps()
                piece = part.data
            else:
                self.line = part.lineno
                piece = to_text(self._evaluate(part, scope), self._budget)
            self._rendered_chars += len(piece)
            if self._rendered_chars > MAX_TEXT_CHARS:
                raise TemplateFailure(f"it becomes longer than {MAX_TEXT_CHARS} characters")
            self._pieces.append(piece)

    def _render_if(self, node: nodes.If, scope: VariableScope) -> None:
        for one in (node, *node.elif_):
            if self._is_true(one.test, scope):
                self._render_block(one.body, scope)
                return
        self._render_block(node.else_, scope)

    def _render_for(self, node: nodes.For, scope: VariableScope) -> None:
        items = loop_items(self._evaluate(node.iter, scope), self._budget)
        if (test := node.test) is not None:
            items = [item for item in items if self._is_true(test, self._loop_scope(node, item, scope))]
        for index, item in enumerate(items):
            inner = self._loop_scope(node, item, scope)
            inner["loop"] = _loop_variables(index, len(items))
            self._render_block(node.body, inner)
        if not items:
            self._render_block(node.else_, scope.new_child())

    def _loop_scope(self, node: nodes.For, item: Any, scope: VariableScope) -> VariableScope:
        self._budget.charge_steps(2)
        inner = scope.new_child()
        self._assign(node.target, item, inner)
        return inner

    def _assign(self, target: nodes.Node, value: Any, scope: VariableScope) -> None:
        if isinstance(target, nodes.Name):
            scope[target.name] = require_defined(value)
            return
        names = target.items if isinstance(target, nodes.Tuple) else []
        values = loop_items(value, self._budget)
        if len(values) != len(names):
            raise TemplateFailure(f"{len(values)} values do not fit {len(names)} names")
        for name, one in zip(names, values, strict=True):
            self._assign(name, one, scope)

    def _is_true(self, node: nodes.Node, scope: VariableScope) -> bool:
        return bool(require_defined(self._evaluate(node, scope)))

    def _evaluate(self, node: nodes.Node, scope: VariableScope) -> Any:
        """Return the value of an expression, or Undefined."""
        self._budget.charge_steps()
        evaluate = _EVALUATORS.get(type(node))
        if evaluate is None:
            raise TemplateFailure(f"{type(node).__name__} is not possible")
        return evaluate(self, node, scope)

    def _evaluate_all(self, found: Sequence[nodes.Node], scope: VariableScope) -> list[Any]:
        return [require_defined(self._evaluate(node, scope)) for node in found]

    def _name(self, node: nodes.Name, scope: VariableScope) -> Any:
        return scope[node.name] if node.name in scope else Undefined(f"{node.name[:80]!r} is undefined")

    def _dict(self, node: nodes.Dict, scope: VariableScope) -> Any:
        return {
            object_key(self._evaluate(pair.key, scope)): require_defined(self._evaluate(pair.value, scope))
            for pair in node.items
        }

    def _getitem(self, node: nodes.Getitem, scope: VariableScope) -> Any:
        value = require_defined(self._evaluate(node.node, scope))
        if not isinstance(node.arg, nodes.Slice):
            return self._attribute(node, value, self._evaluate(node.arg, scope), scope)
        if not isinstance(value, str | list | tuple):
            raise TemplateFailure(f"{preview(value)} has no slices")
        ends = (node.arg.start, node.arg.stop, node.arg.step)
        begin, end, step = (None if one is None else require_number(self._evaluate(one, scope)) for one in ends)
        self._budget.charge_text(len(value))
        return value[begin:end:step]

    def _getattr(self, node: nodes.Getattr, scope: VariableScope) -> Any:
        return self._attribute(node, self._evaluate(node.node, scope), node.attr, scope)

    def _attribute(self, node: nodes.Getattr | nodes.Getitem, value: Any, name: Any, scope: VariableScope) -> Any:
        """Return the attribute. If it is missing from the context of the task, the reason names the remedy."""
        found = get_attribute(value, name)
        if (
            isinstance(found, Undefined)
            and (path := _context_path(node))
            and value is _context_parent(path, scope.maps[-1])
        ):
            return _undefined_context(path)
        return found

    def _compare(self, node: nodes.Compare, scope: VariableScope) -> bool:
        left = require_defined(self._evaluate(node.expr, scope))
        for operand in node.ops:
            right = require_defined(self._evaluate(operand.expr, scope))
            if not self._compare_pair(operand.op, left, right):
                return False
            left = right
        return True

    def _compare_pair(self, operator_name: str, left: Any, right: Any) -> bool:
        if operator_name in ("in", "notin"):
            return contains(right, left, self._budget) == (operator_name == "in")
        return compare(operator_name, left, right, self._budget)

    def _and(self, node: nodes.And, scope: VariableScope) -> Any:
        left = require_defined(self._evaluate(node.left, scope))
        return self._evaluate(node.right, scope) if left else left

    def _or(self, node: nodes.Or, scope: VariableScope) -> Any:
        left = require_defined(self._evaluate(node.left, scope))
        return left or self._evaluate(node.right, scope)

    def _condition(self, node: nodes.CondExpr, scope: VariableScope) -> Any:
        if self._is_true(node.test, scope):
            return self._evaluate(node.expr1, scope)
        return (
            Undefined("an 'if' without 'else' is undefined")
            if node.expr2 is None
            else self._evaluate(node.expr2, scope)
        )

    def _concat(self, node: nodes.Concat, scope: VariableScope) -> str:
        pieces = [to_text(self._evaluate(one, scope), self._budget) for one in node.nodes]
        self._budget.charge_text(sum(map(len, pieces)))
        return "".join(pieces)

    def _add(self, node: nodes.Add, scope: VariableScope) -> Any:
        left, right = self._evaluate_all((node.left, node.right), scope)
        if isinstance(left, str) and isinstance(right, str):
            self._budget.charge_text(len(left) + len(right))
            return left + right
        if isinstance(left, list) and isinstance(right, list):
            self._budget.charge_steps(len(left) + len(right))
            return left + right
        return require_number(require_number(left) + require_number(right))

    def _arithmetic(self, node: nodes.BinExpr, scope: VariableScope) -> Any:
        left, right = self._evaluate_all((node.left, node.right), scope)
        return require_number(_ARITHMETIC_OPERATORS[type(node)](require_number(left), require_number(right)))

    def _filter(self, node: nodes.Filter, scope: VariableScope) -> Any:
        value = None if node.node is None else self._evaluate(node.node, scope)
        args = self._evaluate_all(node.args, scope)
        named = {str(one.key): require_defined(self._evaluate(one.value, scope)) for one in node.kwargs}
        try:
            return FILTERS[node.name](self._budget, value, *args, **named)
        except TypeError as error:
            raise TemplateFailure(f"the filter {node.name!r} does not take this value or these arguments") from error

    def _test(self, node: nodes.Test, scope: VariableScope) -> bool:
        value = self._evaluate(node.node, scope)
        args = self._evaluate_all(node.args, scope)
        return passes_test(node.name, value, args, self._budget)

    def _call(self, node: nodes.Call, scope: VariableScope) -> Any:
        args = self._evaluate_all(node.args, scope)
        if node.kwargs:
            raise TemplateFailure("a call takes no named arguments")
        if not isinstance(node.node, nodes.Getattr):
            return self._range(args)
        value = require_defined(self._evaluate(node.node.node, scope))
        if not isinstance(value, dict):
            raise TemplateFailure(f"{preview(value)} is no object and has no {node.node.attr}()")
        if node.node.attr == "get" and 1 <= len(args) <= 2:
            return value.get(object_key(args[0]), args[1] if len(args) == 2 else None)
        if node.node.attr == "get" or args:
            raise TemplateFailure(f"{node.node.attr}() does not take {len(args)} arguments")
        self._budget.charge_steps(len(value))
        return list({"items": value.items(), "keys": value.keys(), "values": value.values()}[node.node.attr])

    def _range(self, args: list[Any]) -> list[int]:
        if not 1 <= len(args) <= 3 or not all(isinstance(require_number(one), int) for one in args):
            raise TemplateFailure("range takes one to three whole numbers")
        found = range(*args)
        if len(found) > MAX_RANGE_LENGTH:
            raise TemplateFailure(f"range gives up to {MAX_RANGE_LENGTH} numbers")
        self._budget.charge_steps(len(found))
        return list(found)


def _context_path(node: nodes.Node) -> list[str]:
    """Return the names that lead from `context` to this value, or [] if it is not written as a path."""
    names: list[str] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        name = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if not isinstance(name, str) or len(name) > _MAX_PATH_NAME_CHARS or len(names) == _MAX_PATH_DEPTH:
            return []
        names.append(name)
        node = node.node
    return names[::-1] if isinstance(node, nodes.Name) and node.name == "context" else []


def _context_parent(path: list[str], variables: Mapping[str, Any]) -> Any:
    """Return the object of the task's context that should have the last name of the path, or Undefined."""
    found = variables.get("context")
    for name in path[:-1]:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else Undefined("")


def _undefined_context(path: list[str]) -> Undefined:
    value = "..."
    for name in reversed(path):
        value = f"{{{json.dumps(name)}: {value}}}"
    shown = ".".join(path)
    by_option = f"--context {shown}=... (command line) or " if len(path) == 1 else ""
    return Undefined(f"the context of the task has no {preview(shown)}", f": pass {by_option}context={value} (Python)")


def _loop_variables(index: int, length: int) -> dict[str, Any]:
    places = {"index": index + 1, "index0": index, "revindex": length - index, "revindex0": length - index - 1}
    return {**places, "first": index == 0, "last": index == length - 1, "length": length}


_ARITHMETIC_OPERATORS: dict[type[nodes.BinExpr], Callable[[Any, Any], Any]] = {
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}
_EVALUATORS: dict[type[nodes.Node], Callable[[Renderer, Any, VariableScope], Any]] = {
    nodes.Const: lambda run, node, scope: node.value,
    nodes.TemplateData: lambda run, node, scope: node.data,
    nodes.Name: Renderer._name,
    nodes.List: lambda run, node, scope: run._evaluate_all(node.items, scope),
    nodes.Tuple: lambda run, node, scope: tuple(run._evaluate_all(node.items, scope)),
    nodes.Dict: Renderer._dict,
    nodes.Getattr: Renderer._getattr,
    nodes.Getitem: Renderer._getitem,
    nodes.Compare: Renderer._compare,
    nodes.And: Renderer._and,
    nodes.Or: Renderer._or,
    nodes.Not: lambda run, node, scope: not run._is_true(node.node, scope),
    nodes.CondExpr: Renderer._condition,
    nodes.Concat: Renderer._concat,
    nodes.Add: Renderer._add,
    **dict.fromkeys(_ARITHMETIC_OPERATORS, Renderer._arithmetic),
    nodes.Neg: lambda run, node, scope: -require_number(run._evaluate(node.node, scope)),
    nodes.Pos: lambda run, node, scope: require_number(run._evaluate(node.node, scope)),
    nodes.Filter: Renderer._filter,
    nodes.Test: Renderer._test,
    nodes.Call: Renderer._call,
}
