"""Rules for templates: the constructs of Jinja that they may use, and their maximum size.

Jinja only parses a template; its code is neither compiled nor run. `renderer` walks the tree that these rules accepted.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateError, nodes

from roboco.adapters.templates.filters import FILTERS
from roboco.adapters.templates.template_tests import TESTS
from roboco.domain.team.team import MAX_PROMPT

VARIABLES = ("task", "team", "agent", "context")
"""Variables of a template, beside its own ones and `loop`."""
MOST_TOKENS = 4000
"""Maximum number of words and signs of code in a template."""
LONGEST_KEPT = 16 * 1024
"""Maximum length of a template whose tree is cached. 64 cached trees take at most 40 MB. A longer one takes 60 ms."""
DEEPEST = 50
"""Maximum depth of nested expressions, loops and conditions."""
METHODS = frozenset({"get", "items", "keys", "values"})
"""The methods that a template may call, of objects only."""
_TEST_AT = {"select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}
"""The position of the argument that names a test, by filter."""
_CALLS = "range(...), and get, items, keys and values of objects"
_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Name, nodes.Const),
    *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.CondExpr, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul),
    *(nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos, nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword),
)
_ALLOWED = (
    "{{ expressions }}, if, for and set; in expressions: names, constants, lists, comparisons, and, or, not, "
    "filters, tests, + - * / // % ~"
)
_environment = Environment(autoescape=False, optimized=False)  # noqa: S701 a prompt is not HTML


class RefusedTemplate(ValueError):
    """A template that these rules do not accept; `mistakes` contains the reasons."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes


def is_plain(template: str) -> bool:
    """Return True if the template is a text without code."""
    return "{{" not in template and "{%" not in template and "{#" not in template


def plain_text(template: str) -> str:
    """Return the text of a template without code, as Jinja renders it: normalized line ends, without the last one."""
    return template.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def code_size(template: str) -> int:
    """Return the number of words and signs of code in the template, counted up to one more than the maximum."""
    if is_plain(template):
        return 0
    count = 0
    try:
        for _, token, _ in _environment.lexer.tokeniter(template, None):
            count += token not in ("data", "whitespace")
            if count > MOST_TOKENS:
                break
    except (TemplateError, RecursionError):
        pass  # parsing it reports the mistake
    return count


def parsed(template: str) -> nodes.Template:
    """Return the tree of the template. Raise RefusedTemplate if the rules do not accept it."""
    if len(template) > MAX_PROMPT:  # before anything reads it
        raise RefusedTemplate((f"has {len(template)} characters, at most {MAX_PROMPT} are possible",))
    return _kept(template) if len(template) <= LONGEST_KEPT else _parsed(template)


def _parsed(template: str) -> nodes.Template:
    if code_size(template) > MOST_TOKENS:
        raise RefusedTemplate((f"has more than {MOST_TOKENS} words and signs of code, make it simpler",))
    try:
        tree = _environment.parse(template)
        mistakes = tuple(dict.fromkeys(_mistakes(tree)))
    except TemplateError as error:
        raise RefusedTemplate((f"is not a Jinja template: {error}",)) from error
    except RecursionError:
        raise RefusedTemplate(("is not a Jinja template: it is nested too deep",)) from None
    except ValueError as error:  # a number of thousands of digits
        raise RefusedTemplate((f"is not a Jinja template: {error}",)) from error
    if mistakes:
        raise RefusedTemplate(mistakes)
    return tree


_kept = lru_cache(maxsize=64)(_parsed)


def _mistakes(tree: nodes.Template) -> Iterator[str]:
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    read: list[tuple[str, int]] = []
    known = {*VARIABLES, "loop"}
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST:
            yield f"line {node.lineno}: is nested deeper than {DEEPEST} levels, use 'set' for parts of it"
            return
        yield from (f"line {node.lineno}: {wrong}" for wrong in _wrong(node))
        if isinstance(node, nodes.Name):
            known |= {node.name} if node.ctx == "store" else set()
            read += [(node.name, node.lineno)] if node.ctx == "load" else []
        waiting += [(child, depth + 1) for child in _children(node)]
    unknown = {name: line for name, line in sorted(read, key=lambda pair: -pair[1]) if name not in known}
    yield from (
        f"line {line}: unknown variable {name!r:.80}, possible are {', '.join(VARIABLES)}"
        for line, name in sorted((line, name) for name, line in unknown.items())
    )


def _children(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield the child nodes, except the function that a call names: it is not a value."""
    children = node.iter_child_nodes()
    if isinstance(node, nodes.Call):
        called = node.node
        yield from [called.node] if isinstance(called, nodes.Getattr) else []
        children = node.iter_child_nodes(exclude=("node",))
    yield from children


def _wrong(node: nodes.Node) -> Iterator[str]:
    """Yield the mistakes of a node, without those of its child nodes."""
    if type(node) not in _NODES:
        yield f"{_called(node)} is not possible, only {_ALLOWED}"
    elif (rule := _RULES.get(type(node))) is not None:
        yield from filter(None, [rule(node)])
    if isinstance(node, nodes.Filter | nodes.Test | nodes.Call) and (node.dyn_args or node.dyn_kwargs):
        yield "'*' and '**' in arguments are not possible, name them one by one"


def _wrong_filter(node: nodes.Filter) -> str:
    if node.node is None or node.name not in FILTERS:
        return f"no filter {node.name!r:.60} here, possible are {', '.join(sorted(FILTERS))}"
    place = _TEST_AT.get(node.name)
    test = node.args[place] if place is not None and len(node.args) > place else None
    return _no_test(test.value) if isinstance(test, nodes.Const) and test.value not in TESTS else ""


def _wrong_test(node: nodes.Test) -> str:
    return "" if node.name in TESTS else _no_test(node.name)


def _no_test(name: object) -> str:
    return f"no test {name!r:.60}, possible are {', '.join(sorted(TESTS))}"


def _wrong_call(node: nodes.Call) -> str:
    return (
        ""
        if _callable(node.node)
        else f"this call is not possible, only {_CALLS}; or use a filter: {{{{ x | upper }}}}"
    )


def _wrong_loop(node: nodes.For) -> str:
    return "'recursive' is not possible, loops may be nested instead" if node.recursive else ""


def _wrong_set(node: nodes.Assign) -> str:
    known = isinstance(node.target, nodes.Name | nodes.Tuple)
    return "" if known else "'set' sets variables alone, possible is {% set name = value %}"


_RULES: dict[type[nodes.Node], Callable[[Any], str]] = {
    nodes.Filter: _wrong_filter,
    nodes.Test: _wrong_test,
    nodes.Call: _wrong_call,
    nodes.For: _wrong_loop,
    nodes.Assign: _wrong_set,
}


def _callable(called: nodes.Expr) -> bool:
    if isinstance(called, nodes.Getattr):
        return called.attr in METHODS
    return isinstance(called, nodes.Name) and called.name == "range"


def _called(node: nodes.Node) -> str:
    names = {nodes.Pow: "'**'", nodes.AssignBlock: "a block of 'set'", nodes.NSRef: "a namespace"}
    return names.get(type(node), f"'{type(node).__name__.lower()}'")
