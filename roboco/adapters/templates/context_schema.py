"""context_schema: the JSON Schema of a team's context, as the templates of its prompts reveal it.

    templates ─► trees ─► uses of `context.A.B` ─► properties; required, if every task renders the use

A template does not declare types, so every value is allowed. A use in a branch, in the body of a loop, or in a filter
or test that accepts undefined names (`default`, `is defined`) leaves its property optional. The schema is a help for
forms and clients: the check of a submission is the rendering itself.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from jinja2 import nodes

from roboco.adapters.templates.rules import InvalidTemplate, is_plain_text, parse_template

_LENIENT_FILTERS: Final = frozenset({"default", "d"})
_LENIENT_TESTS: Final = frozenset({"defined", "undefined"})
_METHODS: Final = frozenset({"get", "items", "keys", "values"})
Path = tuple[str, ...]


def context_schema(templates: Iterable[str]) -> dict[str, Any]:
    """Return the schema of an object with the values that these templates use. A template with mistakes adds none."""
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for template in templates:
        for path, required in _uses(template):
            _add(root, path, required)
    return root


def _uses(template: str) -> Iterator[tuple[Path, bool]]:
    """Yield the paths below `context` that the template uses, and whether every rendering needs them."""
    if is_plain_text(template):
        return
    try:
        tree = parse_template(template)
    except InvalidTemplate:
        return
    waiting: list[tuple[nodes.Node, bool]] = [(tree, True)]
    while waiting:
        node, required = waiting.pop()
        if isinstance(node, nodes.Getattr | nodes.Getitem) and (path := _path_of(node)):
            yield path, required
            continue
        always = _evaluated_parts(node)
        waiting += [(child, required and (always is None or child in always)) for child in node.iter_child_nodes()]


def _evaluated_parts(node: nodes.Node) -> tuple[nodes.Node, ...] | None:
    """Return the parts of the node that each rendering needs, or None for all of them."""
    match node:
        case nodes.If() | nodes.CondExpr():
            return (node.test,)
        case nodes.For():
            return (node.iter,)
        case nodes.And() | nodes.Or():
            return (node.left,)
        case _:
            return () if _is_lenient(node) else None


def _is_lenient(node: nodes.Node) -> bool:
    """Return True if the node is a filter or a test that accepts undefined names."""
    if isinstance(node, nodes.Filter):
        return node.name in _LENIENT_FILTERS
    return isinstance(node, nodes.Test) and node.name in _LENIENT_TESTS


def _path_of(node: nodes.Node) -> Path:
    """Return the names of `context.A.B` after `context`, up to the first one that is computed; () for other nodes."""
    names: list[str | None] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        names.append(_name_of(node))
        node = node.node
    if not isinstance(node, nodes.Name) or node.name != "context":
        return ()
    path: list[str] = []
    for name in reversed(names):
        if name is None or name in _METHODS:
            break
        path.append(name)
    return tuple(path)


def _name_of(node: nodes.Getattr | nodes.Getitem) -> str | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.arg.value if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str) else None


def _add(schema: dict[str, Any], path: Path, required: bool) -> None:
    """Add the property at a path, with an object for each name before its last one."""
    for position, name in enumerate(path):
        needed = schema.setdefault("required", [])
        if required and name not in needed:
            needed.append(name)
        if not needed:
            del schema["required"]
        schema = schema["properties"].setdefault(name, {})
        if position + 1 < len(path):
            schema.setdefault("type", "object")
            schema.setdefault("properties", {})
