"""The texts in a source that people read, each with the line at which it starts, by the language of the source.

A text keeps the line breaks of its source, so that a phrase is found that is broken over lines.
"""

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

MIN_MESSAGE_WORDS = 2
"""A shorter string is data, unless it is the message of an exception or of a log."""
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
PLACEHOLDER = "{}"
Text = tuple[int, str]
_LUA_TOKEN = re.compile(
    r"--\[\[(?P<block>.*?)\]\]|--(?P<line>[^\n]*)|\[\[(?P<long>.*?)\]\]|(?P<quote>[\"'])(?P<short>(?:\\.|[^\\\n])*?)(?P=quote)",
    re.DOTALL,
)
_INLINE_CODE = re.compile(r"`(?:[^`\n]|\n(?!\n))*`")


@lru_cache(maxsize=1)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of the module, in the order of `ast.walk`, which takes most of the time of these checks."""
    return tuple(ast.walk(tree))


def python_texts(tree: ast.Module, source: str, word_lists: Collection[str] = ()) -> Iterator[Text]:
    """Yield docstrings, messages and comments. The strings in an assignment to one of the word lists are data."""
    always = {id(node) for node in _one_word_messages(tree)} | {id(node) for _, node in docstrings(tree)}
    data = {id(node) for node in _data(tree, word_lists)}
    for node in nodes_of(tree):
        if id(node) in data:
            continue
        text = _string(node)
        if text is not None and (id(node) in always or len(text.split()) >= MIN_MESSAGE_WORDS):
            yield node.lineno, text
        if isinstance(node, ast.JoinedStr):
            data |= {id(piece) for piece in node.values if isinstance(piece, ast.Constant)}
    yield from _joined(_python_comments(source))


def docstrings(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the docstrings of modules, classes and functions, and those below fields, with their nodes."""
    for node in nodes_of(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value, value


def lua_texts(source: str) -> Iterator[Text]:
    """Yield the comments and the messages of a Lua script."""
    comments = []
    for token in _LUA_TOKEN.finditer(source):
        kind, line = token.lastgroup, source.count("\n", 0, token.start()) + 1
        if kind == "line":
            comments.append((line, token["line"], _is_alone(source, token.start())))
        elif kind == "block" or len((text := token["long"] or token["short"] or "").split()) >= MIN_MESSAGE_WORDS:
            yield line, token["block"] if kind == "block" else text
    yield from _joined(comments)


def markdown_texts(source: str) -> Iterator[Text]:
    """Yield the page without its code."""
    code, lines = False, []
    for line in source.splitlines():
        fence = line.lstrip().startswith("```")
        lines.append("" if fence or code else line)
        code ^= fence
    yield 1, _INLINE_CODE.sub(lambda found: "\n" * found.group().count("\n"), "\n".join(lines))


def plain_texts(source: str) -> Iterator[Text]:
    """Yield the whole source, without the marks of its comments."""
    yield 1, re.sub(r"^([ \t]*)(#+|//+|\*)", r"\1", source, flags=re.MULTILINE)


def _string(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=pieces):
            return "".join(_string(piece) or PLACEHOLDER for piece in pieces)
        case _:
            return None


def _one_word_messages(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the arguments of exceptions that are raised and of calls of a log."""
    for node in nodes_of(tree):
        match node:
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from arguments
            case ast.Call(func=ast.Attribute(attr=method), args=[message, *_]) if method in LOG_METHODS:
                yield message
            case _:
                pass


def _data(tree: ast.Module, word_lists: Collection[str]) -> Iterator[ast.AST]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in word_lists:
                yield from ast.walk(value)
            case _:
                pass


def _python_comments(source: str) -> Iterator[tuple[int, str, bool]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if "#" in source else ():
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#"), not token.line[: token.start[1]].strip()


def _is_alone(source: str, at: int) -> bool:
    return not source[source.rfind("\n", 0, at) + 1 : at].strip()


def _joined(comments: Iterable[tuple[int, str, bool]]) -> Iterator[Text]:
    """Yield the comments: line, text, and whether no code is before it. Those of consecutive lines are one text."""
    found = list(comments)
    continues = [
        later == line + 1 and alone and later_alone for (line, _, alone), (later, _, later_alone) in pairwise(found)
    ]
    block: list[str] = []
    for (line, text, _), more in zip(found, [*continues, False], strict=False):
        block.append(text)
        if not more:
            yield line - len(block) + 1, "\n".join(block)
            block = []
