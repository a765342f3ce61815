"""Rules for templates: the constructs of Jinja that they may use, and their maximum size.

Jinja only parses a template; its code is neither compiled nor run. `renderer` walks the tree that these rules accepted.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateError, nodes

from roboco.adapters.templates.filters import FILTERS
from roboco.adapters.templates.template_tests import TESTS
from roboco.domain.team.team import MAX_PROMPT_CHARS

VARIABLES = ("task", "team", "agent", "context")
"""Variables of a template, beside its own ones and `loop`."""
MAX_CODE_TOKENS = 4000
"""Maximum number of words and signs of code in a template."""
MAX_CACHED_CHARS = 16 * 1024
"""Maximum length of a template whose tree is cached. 64 cached trees take at most 40 MB. A longer one takes 60 ms."""
MAX_DEPTH = 50
"""Maximum depth of nested expressions, loops and conditions."""
ALLOWED_METHODS = frozenset({"get", "items", "keys", "values"})
"""The methods that a template may call, of objects only."""
_TEST_ARGUMENT_INDEX = {"select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}
"""The position of the argument that names a test, by filter."""
_ALLOWED_CALLS = "range(...), and get, items, keys and values of objects"
_ALLOWED_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Name, nodes.Const),
    *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.CondExpr, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul),
    *(nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos, nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword),
)
_ALLOWED_SYNTAX = (
    "{{ expressions }}, if, for and set; in expressions: names, constants, lists, comparisons, and, or, not, "
    "filters, tests, + - * / // % ~"
)
_environment = Environment(autoescape=False, optimized=False)  # noqa: S701 a prompt is not HTML


class InvalidTemplate(ValueError):
    """A template that these rules do not accept; `mistakes` contains the reasons."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes


def is_plain_text(template: str) -> bool:
    """Return True if the template is a text without code."""
    return "{{" not in template and "{%" not in template and "{#" not in template


def render_plain_text(template: str) -> str:
    """Return the text of a template without code, as Jinja renders it: normalized line ends, without the last one."""
    return template.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def count_code_tokens(template: str) -> int:
    """Return the number of words and signs of code in the template, counted up to one more than the maximum."""
    if is_plain_text(template):
        return 0
    count = 0
    try:
        for _, token, _ in _environment.lexer.tokeniter(template, None):
            count += token not in ("data", "whitespace")
            if count > MAX_CODE_TOKENS:
                break
    except (TemplateError, RecursionError):
        pass  # parsing it reports the mistake
    return count


def parse_template(template: str) -> nodes.Template:
    """Return the tree of the template. Raise InvalidTemplate if the rules do not accept it."""
    if len(template) > MAX_PROMPT_CHARS:  # before anything reads it
        raise InvalidTemplate((f"has {len(template)} characters, at most {MAX_PROMPT_CHARS} are possible",))
    return _parse_cached(template) if len(template) <= MAX_CACHED_CHARS else _parse(template)


def _parse(template: str) -> nodes.Template:
    if count_code_tokens(template) > MAX_CODE_TOKENS:
        raise InvalidTemplate((f"has more than {MAX_CODE_TOKENS} words and signs of code, make it simpler",))
    try:
        tree = _environment.parse(template)
        mistakes = tuple(dict.fromkeys(_find_mistakes(tree)))
    except TemplateError as error:
        raise InvalidTemplate((f"is not a Jinja template: {error}",)) from error
    except RecursionError:
        raise InvalidTemplate(("is not a Jinja template: it is nested too deep",)) from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidTemplate((f"is not a Jinja template: {error}",)) from error
    if mistakes:
        raise InvalidTemplate(mistakes)
    return tree


_parse_cached = lru_cache(maxsize=64)(_parse)


def _find_mistakes(tree: nodes.Template) -> Iterator[str]:
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    read: list[tuple[str, int]] = []
    known = {*VARIABLES, "loop"}
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            yield f"line {node.lineno}: is nested deeper than {MAX_DEPTH} levels, use 'set' for parts of it"
            return
        yield from (f"line {node.lineno}: {wrong}" for wrong in _node_mistakes(node))
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


def _node_mistakes(node: nodes.Node) -> Iterator[str]:
    """Yield the mistakes of a node, without those of its child nodes."""
    if type(node) not in _ALLOWED_NODES:
        yield f"{_node_label(node)} is not possible, only {_ALLOWED_SYNTAX}"
    elif (rule := _RULES.get(type(node))) is not None:
        yield from filter(None, [rule(node)])
    if isinstance(node, nodes.Filter | nodes.Test | nodes.Call) and (node.dyn_args or node.dyn_kwargs):
        yield "'*' and '**' in arguments are not possible, name them one by one"


def _filter_mistake(node: nodes.Filter) -> str:
    if node.node is None or node.name not in FILTERS:
        return f"no filter {node.name!r:.60} here, possible are {', '.join(sorted(FILTERS))}"
    place = _TEST_ARGUMENT_INDEX.get(node.name)
    test = node.args[place] if place is not None and len(node.args) > place else None
    return _unknown_test(test.value) if isinstance(test, nodes.Const) and test.value not in TESTS else ""


def _test_mistake(node: nodes.Test) -> str:
    return "" if node.name in TESTS else _unknown_test(node.name)


def _unknown_test(name: object) -> str:
    return f"no test {name!r:.60}, possible are {', '.join(sorted(TESTS))}"


def _call_mistake(node: nodes.Call) -> str:
    return (
        ""
        if _is_allowed_call(node.node)
        else f"this call is not possible, only {_ALLOWED_CALLS}; or use a filter: {{{{ x | upper }}}}"
    )


def _loop_mistake(node: nodes.For) -> str:
    return "'recursive' is not possible, loops may be nested instead" if node.recursive else ""


def _set_mistake(node: nodes.Assign) -> str:
    known = isinstance(node.target, nodes.Name | nodes.Tuple)
    return "" if known else "'set' sets variables alone, possible is {% set name = value %}"


_RULES: dict[type[nodes.Node], Callable[[Any], str]] = {
    nodes.Filter: _filter_mistake,
    nodes.Test: _test_mistake,
    nodes.Call: _call_mistake,
    nodes.For: _loop_mistake,
    nodes.Assign: _set_mistake,
}


def _is_allowed_call(called: nodes.Expr) -> bool:
    if isinstance(called, nodes.Getattr):
        return called.attr in ALLOWED_METHODS
    return isinstance(called, nodes.Name) and called.name == "range"


def _node_label(node: nodes.Node) -> str:
    names = {nodes.Pow: "'**'", nodes.AssignBlock: "a block of 'set'", nodes.NSRef: "a namespace"}
    return names.get(type(node), f"'{type(node).__name__.lower()}'")
