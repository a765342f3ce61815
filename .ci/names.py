"""names.py [FOLDER]: find names in docstrings of the product that exist nowhere in it.

A name is an identifier in back-ticks, or a constant such as MAX_ITEMS. It exists if the code uses it: as a name, a part
of a string, a file, or in a Lua script, a style sheet or a script of the web pages.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from texts import docstrings

OUTSIDE: Final = frozenset(
    [
        "GLOBAL_KEYPREFIX",
        "PRIORITY_STEP",
        "CAP_SYS_PTRACE",
        "TASK_OR_FILE",
        "KEY_ID",
        "TASK_7",
        "uvx",
        "nohup",
        "aud",
        "unsupported_parameter",
        "client_search",
        "tool_N",
        "cache_control",
        "build_tracer",
        "isdir",
        "roboco_signature",
        "B",
    ]
)
"""Names of other programs and placeholders."""
_NAMED: Final = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)`|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_OTHER_SOURCES: Final = ("*.lua", "*.js", "*.css", "*.html", "*.yaml", "*.toml")


def main(root: Path) -> int:
    """Print each name that does not exist. Return 1 if there is one."""
    sources = [path for folder in ("roboco", "workers") for path in sorted((root / folder).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text()) for path in sources}
    known = OUTSIDE | _names_of_files(root) | {word for tree in trees.values() for word in _used(tree)}
    missing = [
        f"{path.relative_to(root)}:{node.lineno}: {name} does not exist"
        for path, tree in trees.items()
        for text, node in docstrings(tree)
        for found in _NAMED.finditer(text)
        if (name := found[1] or found[2]).rpartition(".")[2] not in known and not name.startswith("ROBOCO_")
    ]
    sys.stdout.write("".join(f"{one}\n" for one in missing))
    return 1 if missing else 0


def _names_of_files(root: Path) -> set[str]:
    """Return the words in paths of the product, and in its sources that are not Python."""
    paths = [*(root / "roboco").rglob("*"), *(root / "workers").rglob("*")]
    words = {word for path in paths for word in _WORD.findall(str(path.relative_to(root)))}
    texts = (path.read_text() for pattern in _OTHER_SOURCES for path in (root / "roboco").rglob(pattern))
    return words | {word for text in texts for word in _WORD.findall(text)}


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield the words of the module outside its docstrings."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (*name.split("."), other or name)
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in documents:
                yield from _WORD.findall(text)
            case _:
                pass


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent))
