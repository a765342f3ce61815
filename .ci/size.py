"""size.py [--record] [--seconds N]: compare the size of the product with `.ci/size.json`, and fail if it has grown.

A change that needs more records the new numbers (`python .ci/size.py --record`) and says why in the body of its commit.
With the seconds of a whole `.ci/run`, only these are compared or recorded. More of them is no failure: machines differ.
"""

import argparse
import ast
import json
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from import_depth import longest_chain

ROOT: Final = Path(__file__).parent.parent
RECORD: Final = ROOT / ".ci" / "size.json"
SECONDS: Final = "seconds of .ci/run"
_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def main() -> int:
    """Print each number beside the recorded one. Return 1 if the product has grown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--seconds", type=int, metavar="N")
    options = parser.parse_args()
    recorded: dict[str, int] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    sizes = _sizes() if options.seconds is None else {SECONDS: options.seconds}
    if options.record:
        recorded |= sizes
        RECORD.write_text(json.dumps(recorded, indent=2) + "\n")
    for name, size in sizes.items():
        print(f"{name:<28}{size:>8}{size - recorded.get(name, 0):>+8}")
    grown = [name for name, size in sizes.items() if name != SECONDS and size > recorded.get(name, 0)]
    if grown:
        print(f"grown: {', '.join(grown)}; take something away, or record it and say why in the commit")
    return 1 if grown else 0


def _sizes() -> dict[str, int]:
    paths = sorted({*ROOT.glob("workers/**/*.py"), *ROOT.glob("roboco/**/*.py")})
    return {name: measure(paths) for name, measure in MEASURES.items()}


def lines(paths: list[Path]) -> int:
    """Return the number of all lines."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def code_lines(paths: list[Path]) -> int:
    """Return the number of lines without docstrings, comments and blank lines."""
    return sum(len(_lines_of_code(path)) for path in paths)


def _lines_of_code(path: Path) -> set[int]:
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _NO_CODE]
    found = {line for token in tokens[1:] for line in range(token.start[0], token.end[0] + 1)}
    for node in _nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def settings(paths: list[Path]) -> int:
    """Return the number of fields of the two classes of settings."""
    return _fields(paths, "Settings") + _fields(paths, "GatewaySettings")


def ports(paths: list[Path]) -> int:
    """Return the number of Protocols in `roboco/ports`."""
    below = [path for path in paths if path.is_relative_to(ROOT / "roboco" / "ports")]
    return sum(any("Protocol" in ast.dump(base) for base in kind.bases) for kind in _classes(below))


def private_names(paths: list[Path]) -> int:
    """Return the number of places that use a private name of a dependency: an attribute, or a module by its import.

    `_replace` and `os._exit` are public.
    """
    nodes = [node for path in paths for node in _nodes(path)]
    ours = {
        "_replace",
        "_exit",
        *(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)),
    }
    ours |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    ours |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return sum(bool(_PRIVATE.match(name)) and name not in ours for node in nodes for name in _used_names(node))


_PRIVATE: Final = re.compile(r"_(?!_)\w")
_MODULE: Final = re.compile(r"[a-z]\w*(?:\.\w+)+")


def _used_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (part for alias in names for part in alias.name.split("."))
            yield from (getattr(node, "module", None) or "").split(".")
        case ast.Constant(value=str() as text) if _MODULE.fullmatch(text):
            yield from text.split(".")


def import_chain(paths: list[Path]) -> int:
    """Return the number of modules in the longest chain of imports."""
    return len(longest_chain(ROOT, paths))


def _fields(paths: list[Path], name: str) -> int:
    return sum(
        isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.dump(node.annotation)
        for kind in _classes(paths)
        if kind.name == name
        for node in kind.body
    )


def _classes(paths: list[Path]) -> Iterator[ast.ClassDef]:
    for path in paths:
        yield from (node for node in _nodes(path) if isinstance(node, ast.ClassDef))


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


MEASURES: Final[Mapping[str, Callable[[list[Path]], int]]] = MappingProxyType(
    {
        "lines": lines,
        "lines of code": code_lines,
        "lines of the gateway": lambda paths: lines(_below(paths, "gateway")),
        "settings": settings,
        "ports": ports,
        "fields of Engine": lambda paths: _fields(paths, "Engine"),
        "fields of Snapshot": lambda paths: _fields(paths, "Snapshot"),
        "uses of private names": private_names,
        "longest chain of imports": import_chain,
        "lines of tests": lambda _: lines(list(ROOT.glob("tests/**/*.py"))),
    }
)


def _below(paths: list[Path], folder: str) -> list[Path]:
    return [path for path in paths if path.is_relative_to(ROOT / "roboco" / folder)]


if __name__ == "__main__":
    sys.exit(main())
