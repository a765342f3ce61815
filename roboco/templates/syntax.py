"""syntax: the code in a template, found without a parser, so that a hostile template is refused before it is parsed.

    template ─► texts · comments · raw texts │ code: {{ expressions }}, {% statements %} ─► tokens ─► mistakes

Fuel bounds MiniJinja's instructions and the texts that they make. It does not bound two other things:

* The stack: templates are parsed, compiled and freed by recursion. About 2,200 times `-` end a process whose stack has
  1 MB. Therefore the code has at most `MAX_CODE_TOKENS`, and no statement repeats other code deeper.
* Values that contain another one more than once: forty times `set a = [a, a]` make a list of 2^40 items, which `tojson`
  and `==` visit. Therefore a template makes few such copies, and each one halves its fuel.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_CODE_TOKENS = 2000
"""Maximum number of words, texts and signs in the code of a template."""
MAX_COPIES = 4
"""Maximum number of times that the lists, objects and sums of a template may double a value."""
_MAX_ATTRIBUTE_CHARS = 100
"""Each item of a list is searched by the path of an attribute."""
FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "indent", "int", "items", "join"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round"),
    *("select", "selectattr", "sort", "string", "sum", "title", "tojson", "trim", "truncate", "unique", "upper"),
)
"""The filters of templates: those whose result is a text or is no larger than their value."""
TESTS = (
    *(
        "boolean",
        "defined",
        "divisibleby",
        "eq",
        "equalto",
        "even",
        "false",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "iterable",
    ),
    *("le", "lessthan", "lt", "mapping", "ne", "none", "number", "odd", "sequence", "string", "true", "undefined"),
)
_STATEMENTS = ("if", "elif", "else", "endif", "for", "endfor", "set")
_TOO_DEEP = "an object with more than four levels"
_STRING = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
_BRACES = rf"""\{{(?:{_STRING}|[^'"{{}}])*+\}}"""
for _ in range(3):  # objects in objects in objects
    _BRACES = rf"""\{{(?:{_STRING}|[^'"{{}}]|{_BRACES})*+\}}"""
_PARTS = re.compile(
    r"\{#[-+]?(?:.*?#\}|.*)"
    r"|\{%[-+]?[ \t\n\f\r]*raw[ \t\n\f\r]*[-+]?%\}(?:.*?\{%[-+]?[ \t\n\f\r]*endraw[ \t\n\f\r]*[-+]?%\}|.*)"
    rf"""|(?P<code>\{{[{{%](?:{_STRING}|[^'"{{}}%]|%(?!\}})|{_BRACES})*+[%}}]\}})|(?P<open>\{{[{{%].*)""",
    re.DOTALL,
)
"""The parts of a template beside its texts. Code whose end is not found extends to the end of the template.

White space is that of MiniJinja, so that both find the same end of a raw text.
"""
_SIGNS = re.compile(r"\w+|[^\w\s]")
"""The tokens of a text in which quotes are signs: at least as many as any reading of it has."""
_TOKENS = re.compile(rf"{_STRING}|[%}}]\}}(?=\Z)|\w+|[^\w\s]", re.DOTALL)
_KEYWORDS = frozenset(
    {"and", "or", "not", "in", "is", "if", "elif", "else", "true", "false", "none", "True", "False", "None"}
)
Code = list[tuple[int, str, list[str]]]
"""For each expression and statement: its line, the name of the statement or "", and its tokens."""


def is_plain_text(template: str) -> bool:
    """Return True if the template is a text without code."""
    return "{{" not in template and "{%" not in template and "{#" not in template


def read_code(template: str) -> Code | None:
    """Return the code of the template, or None if it has too many tokens."""
    code: Code = []
    left = MAX_CODE_TOKENS
    for part in _PARTS.finditer(template):
        text = part["code"] or part["open"]
        if text is None:
            continue
        tokens = _TOKENS.findall(text) if part["code"] else _SIGNS.findall(text)
        left -= len(tokens)
        if left < 0:
            return None
        if part["open"]:
            code.append((template.count("\n", 0, part.start()) + 1, _TOO_DEEP, []))
            continue
        name = next((word for word in tokens[2:] if word not in "-+"), "") if text[1] == "%" else ""
        code.append((template.count("\n", 0, part.start()) + 1, name, tokens[2:-1]))
    return code


def code_mistakes(code: Code) -> Iterator[str]:
    """Yield what the code uses of Jinja that templates of prompts do not have."""
    for line, statement, tokens in code:
        if statement and statement not in _STATEMENTS:
            yield f"line {line}: {statement!r:.60} is not possible, only {{{{ expressions }}}}, if, for and set"
        yield from (f"line {line}: {mistake}" for mistake in _mistakes(tokens))
    if count_copies(code) > MAX_COPIES:
        yield f"adds or lists more than {MAX_COPIES} values; write them one by one, or join texts with '~'"


def count_copies(code: Code) -> int:
    """Return how often the lists, objects and sums of the code may double a value."""
    return sum(_copies(tokens[_target_length(statement, tokens) :]) for _, statement, tokens in code)


def assigned_names(code: Code) -> set[str]:
    """Return the words to which `set` and `for` assign."""
    return {name for _, statement, tokens in code for name in tokens[: _target_length(statement, tokens)]}


def _target_length(statement: str, tokens: list[str]) -> int:
    """Return the number of tokens up to the value that `set` or `for` assigns."""
    end = {"set": "=", "for": "in"}.get(statement)
    return tokens.index(end) + 1 if end in tokens else 0


def _mistakes(tokens: list[str]) -> Iterator[str]:
    for place, (before, word) in enumerate(pairwise(["", *tokens])):
        rest = tokens[place + 1 : place + 6]
        if word == "*":
            yield "'*' is not possible, pass the product in the context"
        elif word == "recursive":
            yield "'recursive' is not possible, loops may be nested instead"
        elif before == "|":
            yield from _filter_mistakes(word, rest)
        elif before == "." and rest[:1] == ["("] and word not in ("get", "items", "keys", "values"):
            yield "this call is not possible, only range(...), and get, items, keys and values; or a filter: x | upper"
        elif before == "is" and (name := rest[0] if word == "not" and rest else word) not in TESTS:
            yield f"no test {name!r:.60}, possible are {', '.join(TESTS)}"
        elif word == "attribute" and rest[:1] == ["="] and not _is_attribute(rest[1:3]):
            yield _ATTRIBUTE_MISTAKE


_ATTRIBUTE_MISTAKE = f"an attribute is a constant of at most {_MAX_ATTRIBUTE_CHARS} characters, as in 'user.name'"


def _filter_mistakes(name: str, rest: list[str]) -> Iterator[str]:
    if name not in FILTERS:
        yield f"no filter {name!r:.60}, possible are {', '.join(FILTERS)}"
    elif name in ("selectattr", "rejectattr") and not _is_attribute(rest[1:3]):
        yield _ATTRIBUTE_MISTAKE
    elif name in ("map", "sum") and rest[:1] == ["("] and [*rest[1:3], *rest[4:]] != ["attribute", "=", ")"]:
        yield f"the filter {name!r} takes attribute='...' alone"
    elif name == "tojson" and rest[:1] == ["("] and not _is_indent([one for one in rest if one not in ("indent", "=")]):
        yield "the filter 'tojson' takes an indent from 0 to 8 alone"


def _is_indent(tokens: list[str]) -> bool:
    return tokens[2:3] == [")"] and tokens[1] in tuple("012345678")


def _is_attribute(tokens: list[str]) -> bool:
    return _is_constant(tokens) and len(tokens[0]) <= _MAX_ATTRIBUTE_CHARS and tokens[-1] in (",", ")")


def _is_constant(tokens: list[str]) -> bool:
    return bool(tokens) and (tokens[0][0] in "'\"" or tokens[0].isdecimal())


def _copies(tokens: list[str]) -> int:
    copies = sum(not _adds_constant(tokens, place) for place, word in enumerate(tokens) if word == "+")
    opened = [_Brackets()]
    for place, word in enumerate(tokens):
        before = tokens[place - 1] if place else ""
        if word in ("(", "[", "{"):
            follows_value = before in (")", "]") or (before.isidentifier() and before not in _KEYWORDS)
            opened.append(_Brackets(is_list=word == "{" or not follows_value))
        elif word in (")", "]", "}") and len(opened) > 1:
            copies += opened.pop().copies
        elif word in (",", ":"):
            opened[-1].separators += 1
        elif before != "." and word.isidentifier() and word not in _KEYWORDS:
            for brackets in opened:
                brackets.names += 1
    return copies + sum(brackets.copies for brackets in opened)


def _adds_constant(tokens: list[str], place: int) -> bool:
    before, after = tokens[max(0, place - 2) : place], tokens[place + 1 : place + 3]
    ends = after[1:] not in (["|"], ["."], ["["])
    return (_is_constant(after) and ends) or (_is_constant(before[-1:]) and before[0] != ".")


@dataclass
class _Brackets:
    """Brackets, and the names and separators in them."""

    is_list: bool = True
    names: int = 0
    separators: int = 0

    @property
    def copies(self) -> int:
        return max(0, min(self.names, self.separators + 1) - 1) if self.is_list else 0
